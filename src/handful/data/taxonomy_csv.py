"""A hierarchy from a text file of child,parent rows, with every mistake named by its row."""

from __future__ import annotations

from pathlib import Path

from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Missing, nearest
from handful.files import read_rows


def from_csv(path: str | Path) -> Taxonomy:
    """A hierarchy from rows ``child,parent`` (a header of these two words is skipped; an empty parent is a root).

    A parent that is nobody's child must be declared as a root by a row ``name,``: a misspelt parent would otherwise
    become a second root in silence. A file without any such row has its roots inferred if there is exactly one.
    """
    file = Path(path)
    try:
        rows = read_rows(file)
    except FileNotFoundError as error:
        raise Missing(f"{file} does not exist") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not UTF-8 text; give rows child,parent") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{file} cannot be read ({error}); give rows child,parent") from error
    edges: list[tuple[str, str]] = []
    roots: list[str] = []
    seen: dict[tuple[str, str], int] = {}
    for number, row in enumerate(rows, start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or (number == 1 and [c.lower() for c in cells[:2]] == ["child", "parent"]):
            continue
        if len(cells) != 2 or not cells[0]:
            raise BadInput(f"{file}, row {number}: expected child,parent, found {','.join(row)!r}")
        pair = (cells[0], cells[1])
        if pair in seen:
            raise BadInput(f"{file}, row {number}: {','.join(pair)} repeats row {seen[pair]}; keep one")
        seen[pair] = number
        if cells[1]:
            edges.append(pair)
        else:
            roots.append(cells[0])
    children = {child for child, _ in edges}
    tops = list(dict.fromkeys(parent for _, parent in edges if parent not in children))
    unknown = [parent for parent in tops if parent not in roots]
    if unknown and (roots or len(unknown) > 1):
        hints = {parent: nearest(parent, children | set(roots)) for parent in unknown}
        culprit = next((parent for parent in unknown if hints[parent].startswith("did you mean")), unknown[0])
        at = next(n for (_, parent), n in seen.items() if parent == culprit)
        raise BadInput(
            f"{file}, row {at}: the parent {culprit} is nobody's child and not declared as a root; "
            f"{hints[culprit]} (a root is a row 'name,')"
        )
    clash = [root for root in roots if root in children]
    if clash:
        raise BadInput(f"{file}, row {seen[(clash[0], '')]}: {clash[0]} is declared a root but has a parent too")
    return Taxonomy.of(edges, lone=roots, source=str(file.name))
