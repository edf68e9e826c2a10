"""`handful audit --only image-text`: CLIP's similarities of several collections, ranked and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from handful.cli.options import emit, usable_folder


def image_text(
    places: list[str],
    clip: str,
    template: str,
    column: str,
    split: str,
    reported: bool,
    out: Path | None,
    compute: Any,
    json: bool,
) -> None:
    """M_ce and M_te (Eq. 1) of every image, the scatter of Figure 2(b) and the ranking of Figure 2(a)."""
    from handful.audits.similarity import check_images, ranking, scatter
    from handful.audits.similarity import similarity as measure
    from handful.data.opening import open_collection
    from handful.files import write_atomically
    from handful.nets.texts import reader
    from handful.report.sheets import slug
    from handful.runs.learners import choose_part

    usable_folder(out)
    parts = [choose_part(open_collection(place), split, None) for place in places]
    for part in parts:
        check_images(part)
    net = reader(clip, parts[0].collection.card.shape)
    found = [measure(part, net, template, column=column, compute=compute) for part in parts]
    if out is not None:
        drawn = {"figure2a.svg": ranking(found, reported).encode()}
        stems = [slug(one.name) for one in found]
        if len(set(stems)) < len(stems):
            stems = [f"{stem}-{i}" for i, stem in enumerate(stems, start=1)]
        for stem, one in zip(stems, found, strict=True):
            drawn[f"{stem}.csv"] = one.frame.write_csv().encode()
            if one.context is not None:
                drawn[f"figure2b-{stem}.svg"] = scatter(one).encode()
        for name, data in drawn.items():
            write_atomically(out / name, lambda path, data=data: path.write_bytes(data))  # type: ignore[misc]
    rows = [
        {"collection": part.collection.id, "split": split, "template": template, "images": len(part)}
        | {key: e and e.as_dict() for key, e in (("M_ce", s.concept), ("M_te", s.context), ("M_te - M_ce", s.lead))}
        for part, s in zip(parts, found, strict=True)
    ]
    if json:
        emit({"clip": clip, **({"caution": net.caution} if net.caution else {}), "rows": rows})
        return
    for part, s in sorted(zip(parts, found, strict=True), key=lambda pair: pair[1].concept.value):
        text = f"{part.collection.id}: {len(part)} images, M_ce {s.concept.value:.3f} ± {s.concept.half:.3f}"
        if s.context is not None and s.lead is not None:
            text += f", M_te {s.context.value:.3f} ± {s.context.half:.3f}, M_te - M_ce {s.lead.value:.3f} ± {s.lead.half:.3f}"
        print(text)
    if net.caution:
        print(f"{clip}: {net.caution}")
