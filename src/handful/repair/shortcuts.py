"""Images whose border or colours alone give the class away are drawn less often."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy import stats

from handful.audits import views
from handful.data.collection import Collection, Part
from handful.errors import Infeasible
from handful.progress import bar
from handful.repair.confident import out_of_fold
from handful.repair.contexts import largest, usual
from handful.repair.kinds import Entry, Repair
from handful.repair.look import Look
from handful.repair.masking import task_part

LEAST = 0.3
"""By how much the share of a class's images that a poor view recognises exceeds what it calls that class elsewhere."""
LEVEL = 1e-4
ELSEWHERE = 0.05
"""Share of other classes' images that a poor view may take for the class when it is asked one class against all others."""
BINS = 6
FLOOR = 0.02
BLOCK = 1024


class ShortcutWeights(Repair):
    """Weights under which a view of the border, or of the colours, tells a class as rarely as it errs elsewhere.

    Each view answers out of fold: it recognises the images whose probability of the class is higher than that of all but b = 5% of other
    classes' images. Of a class that it recognises in a share a of its images, those it recognises get the weight b (1 - a) / (a (1 - b)):
    drawn by it, they are as frequent in their class as such images are elsewhere.
    """

    name: ClassVar[str] = "shortcuts"
    what: ClassVar[str] = "images whose border or colours alone give the class away are drawn less often"
    cost: ClassVar[float] = 1.5

    def missing(self, collection: Collection) -> str:
        return "" if collection.card.kind == "images" else "the collection holds features, not images"

    def find(self, look: Look) -> list[Entry]:
        rows = look.rows
        seen = looked(look, rows)
        out: list[Entry] = []
        current = look.current
        scheme = current.card.schemes[0] if current.card.schemes else ""
        splits = current.table[scheme].fill_null("").to_numpy().astype(str) if scheme else np.full(len(rows), "")
        for split in np.unique(splits).tolist():
            here = np.flatnonzero(splits == split)
            if len(np.unique(look.classes[rows[here]])) > 1 and (split or not scheme):
                out += self._split(look, rows[here], {name: x[here] for name, x in seen.items()}, split)
        if out and not any(e.action == "draw" and e.confirm for e in look.entries):
            if options := drawn(task_part(current), look):
                out.append(
                    self.entry("draw", "tasks are drawn by the weights", "entries of weights", len(out), rule=options)
                )
        return out

    def _split(self, look: Look, rows: np.ndarray, seen: dict[str, np.ndarray], split: str) -> list[Entry]:
        values, given = np.unique(look.classes[rows], return_inverse=True)
        given = given.reshape(-1)
        sizes = np.bincount(given)
        weight, best = np.ones(len(rows)), np.zeros(len(values))
        said: dict[int, tuple[str, float]] = {}
        for name, x in seen.items():
            p = out_of_fold(x, given, look.seed)
            for c in range(len(values)):
                mine = given == c
                told = p[:, c] > np.quantile(p[~mine, c], 1 - ELSEWHERE)
                right, n = mine & told, int(sizes[c])
                a = float(right.sum() / n)
                chance = float(stats.binom.sf(right.sum() - 1, n, ELSEWHERE))
                if a - ELSEWHERE < LEAST or chance >= LEVEL / len(values):
                    continue
                a = min(a, 1 - 0.5 / n)
                w = max(FLOOR, ELSEWHERE * (1 - a) / (a * (1 - ELSEWHERE)))
                weight[right] = np.minimum(weight[right], w)
                if a > best[c]:
                    best[c], said[c] = a, (name, a)
        out = []
        for c, (name, share) in said.items():
            mine = (given == c) & (weight < 1)
            called = look.collection.whole.class_names[int(values[c])]
            where = f" ({split})" if split else ""
            why = f"{name} alone tells {share:.0%} of the images of {called}{where} from all but {ELSEWHERE:.0%} of the others"
            for w in np.unique(weight[mine]).tolist():
                some = rows[mine & (weight == w)]
                out.append(
                    self.entry(
                        "weigh",
                        why,
                        "share recognised by the poor view",
                        share,
                        some,
                        weight=round(w, 4),
                        facts={"view": name},
                    )
                )
        return out


def drawn(part: Part, look: Look) -> dict[str, Any]:
    """The rule that draws by weights; contexts stay balanced under it, since a weighed class may be seen in other contexts than before."""
    context = part.collection.card.context
    if context and context not in part.collection.card.labels:
        try:
            rule, _ = largest([part], look)
            return {"rule": rule.name, **{k: getattr(rule, k) for k in ("ways", "shots", "queries", "contexts")}}
        except Infeasible:
            pass
    found = usual(part, look)
    if found is None:
        return {}
    return {"rule": "balanced", "ways": found.ways, "shots": found.shots, "queries": found.queries, "contexts": 0}


def looked(look: Look, rows: np.ndarray) -> dict[str, np.ndarray]:
    """The border (its mean colours, by stretches) and the colour histogram of every image."""
    out: dict[str, list[np.ndarray]] = {"the border": [], "colour": []}
    histogram = views.colours(BINS)
    with bar(f"looking at borders and colours of {look.collection.card.name}", len(rows)) as advance:
        for start in range(0, len(rows), BLOCK):
            images = look.collection.read(rows[start : start + BLOCK])
            small = views.resized(images, 8, 8)
            ring = np.ones((8, 8), dtype=bool)
            ring[1:-1, 1:-1] = False
            out["the border"].append(small[:, ring].reshape(len(images), -1))
            out["colour"].append(histogram(images))
            advance(len(images))
    return {name: np.concatenate(x) for name, x in out.items()}
