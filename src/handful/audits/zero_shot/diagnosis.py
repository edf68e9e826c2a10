"""The zero-shot question in `handful audit`: can test classes be guessed from their nearest training class?"""

from __future__ import annotations

from typing import ClassVar

from handful.audits.finding import Diagnosis, Finding, Light
from handful.audits.zero_shot.figures import histogram_figure
from handful.audits.zero_shot.split_audit import audit_split
from handful.data.class_splits import ClassSplit
from handful.data.collection import Collection
from handful.data.wordnet import wordnet
from handful.errors import Missing
from handful.metrics.zero_shot import over_classes


class StructuralBias(Diagnosis):
    """Structural ratio and relatives of the train/test split of a collection whose classes are WordNet ids."""

    name: ClassVar[str] = "structural-bias"
    question: ClassVar[str] = "Can a test class be guessed from its nearest training class?"

    def missing(self, collection: Collection) -> str:
        if not (collection.has("train") and collection.has("test")):
            return "it has no train and test split"
        names = collection.whole.class_names
        if not all(len(n) == 9 and n[0] == "n" and n[1:].isdigit() for n in names):
            return "its classes are not WordNet ids"
        train, test = set(collection.train.class_names), set(collection.test.class_names)
        if train & test or len(test) < 2:
            return "its test classes are not apart from its training classes"
        try:
            wordnet()
        except Missing as error:
            return str(error)
        return ""

    def run(self, collection: Collection, *, net: str, seed: int, seconds: float) -> list[Finding]:
        train, test = collection.train.class_names, collection.test.class_names
        found = audit_split(wordnet(), ClassSplit(collection.card.name, tuple(train), tuple(test)))
        spread = over_classes(found.ratio.per_class)
        light: Light = (
            "grey"
            if not found.kin.consistent
            else ("red" if spread.value < 1 else "amber" if spread.value < 2 else "green")
        )
        sentence = (
            f"the structural ratio is {spread.value:.2f}; naming images after their nearest training class could reach "
            f"{found.trivial:.0%}, and {found.kin.in_test.mean():.0%} of the test classes have a relative in the test set"
        )
        return [
            Finding(
                diagnosis=self.name,
                sentence=sentence,
                value=spread.value,
                low=spread.low,
                high=spread.high,
                over="classes",
                threshold="red below 1, where test classes are nearer to train than to one another; green from 2, if consistent",
                light=light,
                figure=histogram_figure(found.ratio.per_class, "structural ratio r(c) of a test class"),
                details={k: v for k, v in found.as_dict().items() if not isinstance(v, dict)},
            )
        ]
