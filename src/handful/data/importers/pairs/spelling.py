"""How the sources of pairs spell one primitive: cases, hyphens, inflections, words run together."""

from __future__ import annotations


def plain(name: str) -> str:
    """A primitive's name as all sources would spell it."""
    return " ".join(name.lower().replace("_", " ").replace("-", " ").split())


def lemma(action: str) -> str:
    """What the forms of a verb share: one key for "ride", "rides", "riding" and "riding a". No dictionary is needed to tell
    forms of one verb; two verbs that get one key ("rid", "ride") are kept apart from each other's splits for nothing."""
    words = [w for w in plain(action).split() if w not in ("a", "an", "the")] or [""]
    return " ".join([_stem(words[0]), *words[1:]])


def _stem(verb: str) -> str:
    verb = {"lying": "lie", "dying": "die", "tying": "tie"}.get(verb, verb)
    for ending, instead in (("ing", ""), ("ies", "y"), ("ied", "y"), ("ed", ""), ("s", "")):
        rest = verb.removesuffix(ending)
        doubled = ending == "s" and rest.endswith("s")
        if rest != verb and len(rest) > 1 and any(v in rest for v in "aeiouy") and not doubled:
            verb = rest + instead
            break
    verb = verb.removesuffix("e")
    return verb[:-1] if len(verb) > 2 and verb[-1] == verb[-2] else verb


def joined(key: str) -> str:
    """The lists write "sportsball" and "brushwith" in one word."""
    return key.replace(" ", "").replace(".", "")
