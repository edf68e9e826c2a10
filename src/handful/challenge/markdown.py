"""Markdown as safe HTML: everything is escaped first, links lead to web pages or mail only, and no HTML passes through.

Headings, paragraphs, lists, quotes, fenced and inline code, bold, italic, links. What else there is stays text.
"""

from __future__ import annotations

import re
from html import escape

MOST = 1 << 16
_ADDRESS = re.compile(r"(https?://|mailto:)[^\s\"'<>]+|/[\w./?=&;#-]*|#[\w-]+")
_LINK = re.compile(r"\[([^\[\]]{1,300})\]\(([^()\s]{1,500})\)")


def render(text: str) -> str:
    """One piece of HTML without scripts, images, forms or styles."""
    out: list[str] = []
    lines = text.replace("\r\n", "\n").replace("\r", "\n")[:MOST].split("\n")
    block: list[str] = []
    while lines:
        line = lines.pop(0)
        if line.lstrip().startswith("```"):
            _end(block, out)
            code = []
            while lines and not lines[0].lstrip().startswith("```"):
                code.append(lines.pop(0))
            lines[:1] = []
            out.append(f"<pre><code>{escape(chr(10).join(code))}</code></pre>")
        elif match := re.match(r"(#{1,4})\s+(.{1,500})$", line):
            _end(block, out)
            level = len(match[1]) + 1
            out.append(f"<h{level}>{inline(match[2])}</h{level}>")
        elif not line.strip():
            _end(block, out)
        else:
            if block and _kind(line) != _kind(block[-1]) and not (_kind(line) == "p" and _kind(block[0]) != "p"):
                _end(block, out)
            block.append(line)
    _end(block, out)
    return "\n".join(out)


def _kind(line: str) -> str:
    if re.match(r"\s*[-*]\s+", line):
        return "ul"
    if re.match(r"\s*\d{1,9}[.)]\s+", line):
        return "ol"
    return "blockquote" if line.startswith(">") else "p"


def _end(block: list[str], out: list[str]) -> None:
    """Close the lines that belong together."""
    if not block:
        return
    kind = _kind(block[0])
    if kind in ("ul", "ol"):
        items: list[str] = []
        for line in block:
            if _kind(line) == kind:
                items.append(re.sub(r"^\s*(?:[-*]|\d{1,9}[.)])\s+", "", line))
            else:
                items[-1] += " " + line.strip()
        out.append(f"<{kind}>{''.join(f'<li>{inline(item)}</li>' for item in items)}</{kind}>")
    else:
        words = " ".join(line.lstrip("> ").rstrip() for line in block)
        out.append(f"<p>{inline(words)}</p>" if kind == "p" else f"<blockquote><p>{inline(words)}</p></blockquote>")
    block.clear()


def inline(text: str) -> str:
    """Code, links, bold and italic within a line."""
    parts = re.split(r"(`[^`]{1,1000}`)", text)
    return "".join(f"<code>{escape(p[1:-1])}</code>" if p[:1] == "`" and len(p) > 2 else _words(p) for p in parts)


def _words(text: str) -> str:
    out, at = [], 0
    for match in _LINK.finditer(text):
        out.append(_emphasis(escape(text[at : match.start()])))
        words = _emphasis(escape(match[1]))
        if _ADDRESS.fullmatch(match[2]) and not match[2].startswith("//"):
            out.append(f'<a rel="nofollow noopener" href="{escape(match[2], quote=True)}">{words}</a>')
        else:
            out.append(words)
        at = match.end()
    return "".join([*out, _emphasis(escape(text[at:]))])


def _emphasis(text: str) -> str:
    text = re.sub(r"\*\*([^*]{1,500})\*\*", r"<b>\1</b>", text)
    return re.sub(r"(?<![\w*])\*([^*\s][^*]{0,500})\*(?![\w*])", r"<i>\1</i>", text)
