"""One lazy table of names per kind of thing, plus entry points for plug-ins.

Listing names never imports the modules behind them; ``get`` imports one. A plug-in adds a name with the entry-point
group ``handful.<kind>`` (for example ``handful.methods``).
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.metadata import entry_points
from typing import Any

from handful.errors import BadInput, nearest
from handful.options import build, unfolded

BUILTIN: dict[str, dict[str, str]] = {
    "importers": {
        "folders": "handful.data.importers.folders:Folders",
        "meta-album": "handful.data.importers.meta_album:MetaAlbum",
        "concept-context": "handful.data.importers.concept_context:ConceptContext",
        "omniglot": "handful.data.importers.omniglot:Omniglot",
        "csv": "handful.data.importers.csv:Csv",
        "hf": "handful.data.importers.hf:HuggingFaceTables",
        "webdataset": "handful.data.importers.webdataset:WebDataset",
        "croissant": "handful.data.importers.croissant:Croissant",
        "mit-states": "handful.data.importers.pairs.czsl:MitStates",
        "ut-zappos": "handful.data.importers.pairs.czsl:UtZappos",
        "c-gqa": "handful.data.importers.pairs.czsl:CGqa",
        "hico": "handful.data.importers.pairs.hico:Hico",
        "imsitu": "handful.data.importers.pairs.imsitu:ImSitu",
        "visual-genome": "handful.data.importers.pairs.visual_genome:VisualGenome",
        "features": "handful.data.importers.features:FeatureFiles",
        "rlcl-attr": "handful.data.rlcl:RlclAttr",
        "rlcl-act": "handful.data.rlcl:RlclAct",
    },
    "rules": {
        "n-way": "handful.tasks.nway:NWay",
        "any-way": "handful.tasks.anyway:AnyWay",
        "pairs": "handful.tasks.pairs:Pairs",
        "iid": "handful.tasks.context:IID",
        "ood": "handful.tasks.context:OOD",
        "ood-conflict": "handful.tasks.context:OODConflict",
        "clustering": "handful.tasks.clustering:Clustering",
        "whole-group": "handful.tasks.alphabet:WholeGroup",
        "meta-dataset": "handful.tasks.meta_dataset:MetaDataset",
        "bits": "handful.tasks.bits:Bits",
        "zero-shot": "handful.tasks.zero_shot:ZeroShot",
        "generalised-zero-shot": "handful.tasks.zero_shot:GeneralisedZeroShot",
        "crossed": "handful.tasks.crossed:Crossed",
        "mix": "handful.tasks.mix:Mix",
        "strangers": "handful.tasks.strangers:Strangers",
        "noisy": "handful.tasks.noisy:Noisy",
        "long-tail": "handful.tasks.noisy:LongTail",
        "hard": "handful.tasks.hard:Hard",
        "named": "handful.tasks.named:Named",
        "balanced": "handful.tasks.balanced:Balanced",
        "base-to-new": "handful.tasks.base_to_new:BaseToNew",
        "cross-dataset": "handful.tasks.base_to_new:CrossDataset",
    },
    "metrics": {
        "accuracy": "handful.metrics.accuracy:Accuracy",
        "pairs": "handful.metrics.pairs:PairAccuracy",
        "contexts": "handful.metrics.context:Contexts",
        "clustering": "handful.metrics.clustering:ClusteringScores",
        "unsupervised": "handful.metrics.clustering:Unsupervised",
        "zero-shot": "handful.metrics.zero_shot:ZeroShotAccuracy",
        "generalised-zero-shot": "handful.metrics.zero_shot:GeneralisedAccuracy",
        "calibration": "handful.metrics.calibration:Calibration",
        "conformal": "handful.metrics.calibration:Conformal",
        "strangers": "handful.metrics.strangers:StrangerScores",
        "base-to-new": "handful.metrics.base_to_new:BaseToNewAccuracy",
    },
    "refusals": {
        "probability": "handful.metrics.refusals:LargestProbability",
        "energy": "handful.metrics.refusals:Energy",
        "margin": "handful.metrics.refusals:Margin",
        "entropy": "handful.metrics.refusals:Entropy",
        "score": "handful.metrics.refusals:LargestScore",
        "prototype": "handful.metrics.refusals:NearestPrototype",
        "mahalanobis": "handful.metrics.refusals:Mahalanobis",
        "k-nn": "handful.metrics.refusals:NearestNeighbour",
        "vim": "handful.metrics.refusals:ViM",
    },
    "nets": {
        "conv4": "handful.nets.conv4:Conv4",
        "resnet12": "handful.nets.resnet12:ResNet12",
        "resnet10": "handful.nets.resnet:ResNet10",
        "resnet18": "handful.nets.resnet:ResNet18",
        "resnet50": "handful.nets.resnet:ResNet50",
        "wrn-28-10": "handful.nets.wrn:WRN2810",
        "lite0": "handful.nets.lite:Lite0",
        "lite1": "handful.nets.lite:Lite1",
        "lite2": "handful.nets.lite:Lite2",
        "lite2+minilm": "handful.nets.lite_minilm:Lite2MiniLM",
        "clip": "handful.nets.clip:Clip",
        "pixels": "handful.nets.pixels:Pixels",
        "mlp": "handful.nets.mlp:MLP",
        "vggs": "handful.nets.vggs:VGGS",
        "module": "handful.nets.given:Given",
        "torch": "handful.nets.torch_file:TorchFile",
        "timm": "handful.nets.timm_net:Timm",
        "hf": "handful.nets.hf:Hf",
        "open_clip": "handful.nets.open_clip_net:OpenClip",
        "onnx": "handful.nets.onnx_net:Onnx",
    },
    "methods": {
        "protonet": "handful.methods.metric.protonet:ProtoNet",
        "matchingnet": "handful.methods.metric.matchingnet:MatchingNet",
        "baseline": "handful.methods.finetuning.baseline:Baseline",
        "baseline++": "handful.methods.finetuning.baseline:BaselinePP",
        "nearest-centroid": "handful.methods.metric.nearest_centroid:NearestCentroid",
        "maml": "handful.methods.gradient.maml:MAML",
        "fo-maml": "handful.methods.gradient.maml:FOMAML",
        "rfs-simple": "handful.methods.finetuning.rfs:RFS",
        "neg-cosine": "handful.methods.finetuning.neg_cosine:NegCosine",
        "skd-gen0": "handful.methods.finetuning.skd:SKD",
        "frn": "handful.methods.finetuning.frn:FRN",
        "lp-ft-fb": "handful.methods.finetuning.lp_ft_fb:LPFTFB",
        "lp-ft": "handful.methods.finetuning.lora:LPFT",
        "lora": "handful.methods.finetuning.lora:LoRA",
        "linear": "handful.methods.finetuning.linear:Linear",
        "cosine": "handful.methods.finetuning.linear:Cosine",
        "k-nn": "handful.methods.finetuning.knn:KNN",
        "contrastive": "handful.methods.finetuning.contrastive:Contrastive",
        "boil": "handful.methods.gradient.boil:BOIL",
        "versa": "handful.methods.gradient.versa:Versa",
        "r2d2": "handful.methods.gradient.r2d2:R2D2",
        "mtl": "handful.methods.gradient.mtl:MTL",
        "sib": "handful.methods.gradient.sib:SIB",
        "cdkt+ml": "handful.methods.gradient.cdkt:CDKT",
        "cdkt+pl": "handful.methods.gradient.cdkt:CDKTPL",
        "anil": "handful.methods.gradient.anil:ANIL",
        "relationnet": "handful.methods.metric.relationnet:RelationNet",
        "pair-protonet": "handful.methods.compositional.lifted:PairProtoNet",
        "pair-matchingnet": "handful.methods.compositional.lifted:PairMatchingNet",
        "pair-relationnet": "handful.methods.compositional.lifted:PairRelationNet",
        "pair-baseline": "handful.methods.compositional.lifted:PairBaseline",
        "pair-baseline++": "handful.methods.compositional.lifted:PairBaselinePP",
        "pair-maml": "handful.methods.compositional.lifted:PairMAML",
        "pair-anil": "handful.methods.compositional.lifted:PairANIL",
        "refined-protonet": "handful.methods.compositional.refined_protonet:RefinedProtoNet",
        "refined-protonet-words": "handful.methods.compositional.refined_protonet:RefinedProtoNetWords",
        "visualprod": "handful.methods.compositional.visualprod:VisualProd",
        "redwine": "handful.methods.compositional.redwine:RedWine",
        "symnet": "handful.methods.compositional.symnet:SymNet",
        "symnet-words": "handful.methods.compositional.symnet:SymNetWords",
        "cge": "handful.methods.compositional.cge:CGE",
        "cge-words": "handful.methods.compositional.cge:CGEWords",
        "centroid": "handful.methods.clustering.centroid:CentroidNet",
        "kmeans": "handful.methods.clustering.references:KMeans",
        "protonet-kmeans": "handful.methods.clustering.references:ProtoKMeans",
        "dn4": "handful.methods.metric.dn4:DN4",
        "covamnet": "handful.methods.metric.covamnet:CovaMNet",
        "tpn": "handful.methods.metric.tpn:TPN",
        "gnn": "handful.methods.metric.gnn:GNN",
        "can": "handful.methods.metric.can:CAN",
        "can+t": "handful.methods.metric.can:TransductiveCAN",
        "deepbdc": "handful.methods.metric.deepbdc:DeepBDC",
        "stl-deepbdc": "handful.methods.metric.deepbdc:STLDeepBDC",
        "simclr": "handful.methods.selfsupervised.simclr:SimCLR",
        "moco": "handful.methods.selfsupervised.moco:MoCo",
        "ssfsl": "handful.methods.selfsupervised.ssfsl:SSFSL",
        "bf3s": "handful.methods.selfsupervised.bf3s:BF3S",
        "bf3s-cosine": "handful.methods.selfsupervised.bf3s:BF3SCosine",
        "sla": "handful.methods.selfsupervised.sla:SLA",
        "trivial": "handful.methods.zero_shot.trivial:Trivial",
        "conse": "handful.methods.zero_shot.conse:ConSE",
        "devise": "handful.methods.zero_shot.devise:DeViSE",
        "eszsl": "handful.methods.zero_shot.eszsl:ESZSL",
        "sync": "handful.methods.zero_shot.sync:SYNC",
        "latem": "handful.methods.zero_shot.latem:LATEM",
        "cmt": "handful.methods.zero_shot.cmt:CMT",
        "gcnz": "handful.methods.zero_shot.gcnz:GCNZ",
        "sgcn": "handful.methods.zero_shot.sgcn:SGCN",
        "train-from-scratch": "handful.methods.metadl.scratch:TrainFromScratch",
        "fine-tuning": "handful.methods.metadl.finetuning:FineTuning",
        "metadelta++": "handful.methods.metadl.metadelta:MetaDelta",
        "adgpm": "handful.methods.zero_shot.adgpm:ADGPM",
        "relationnet+ft": "handful.methods.crossdomain.ft:RelationNetFT",
        "gnn+ft": "handful.methods.crossdomain.ft:GNNFT",
        "tpn+ft": "handful.methods.crossdomain.ft:TPNFT",
        "relationnet+ata": "handful.methods.crossdomain.ata:RelationNetATA",
        "gnn+ata": "handful.methods.crossdomain.ata:GNNATA",
        "tpn+ata": "handful.methods.crossdomain.ata:TPNATA",
        "relationnet+lrp": "handful.methods.crossdomain.lrp:RelationNetLRP",
        "gnn+lrp": "handful.methods.crossdomain.lrp:GNNLRP",
        "matchingnet+ifsl": "handful.methods.causal.ifsl:IFSLMatchingNet",
        "maml+ifsl": "handful.methods.causal.ifsl:IFSLMAML",
        "mtl+ifsl": "handful.methods.causal.ifsl:IFSLMTL",
        "sib+ifsl": "handful.methods.causal.ifsl:IFSLSIB",
        "ccn": "handful.methods.clustering.ccn:CCN",
        "renet": "handful.methods.metric.renet:RENet",
        "hts": "handful.methods.selfsupervised.hts:HTS",
        "tsa": "handful.methods.metric.tsa:TSA",
        "tsa+deta": "handful.methods.metric.deta:DETA",
        "fgfl": "handful.methods.metric.fgfl:FGFL",
        "putm": "handful.methods.metric.putm:PUTM",
        "tpn+lrp": "handful.methods.crossdomain.lrp:TPNLRP",
        "relationnet+lft": "handful.methods.crossdomain.lft:RelationNetLFT",
        "gnn+lft": "handful.methods.crossdomain.lft:GNNLFT",
        "tpn+lft": "handful.methods.crossdomain.lft:TPNLFT",
        "prompts": "handful.methods.adapters.prompts:Prompts",
        "linear-probe": "handful.methods.adapters.prompts:LinearProbe",
        "lp++": "handful.methods.adapters.lp_plus:LPPlus",
        "tip-adapter": "handful.methods.adapters.tip_adapter:TipAdapter",
        "tip-adapter-f": "handful.methods.adapters.tip_adapter:TipAdapterF",
        "clip-adapter": "handful.methods.adapters.clip_adapter:ClipAdapter",
        "taskres": "handful.methods.adapters.prototypes:TaskRes",
        "clap": "handful.methods.adapters.prototypes:CLAP",
        "coop": "handful.methods.adapters.coop:CoOp",
        "cocoop": "handful.methods.adapters.coop:CoCoOp",
    },
    "collections": {
        "world": "handful.data.world:world",
    },
    "engines": {
        "cores": "handful.runs.every_core:EveryCore",
        "inline": "handful.runs.engine:Inline",
        "processes": "handful.runs.engine:Processes",
        "ray": "handful.runs.ray:Ray",
    },
    "trackers": {
        "csv": "handful.methods.tracking:CsvTracker",
        "tensorboard": "handful.methods.tracking:TensorBoardTracker",
        "wandb": "handful.methods.tracking:WandbTracker",
        "mlflow": "handful.methods.tracking:MlflowTracker",
    },
    "diagnoses": {
        "cscc": "handful.audits.cscc:TrainedCSCC",
        "cscc-frozen": "handful.audits.cscc:FrozenCSCC",
        "context-alone": "handful.audits.context_gap:ContextAlone",
        "context-gap": "handful.audits.context_gap:ContextGap",
        "context-probe": "handful.audits.probe:ContextProbe",
        "image-text": "handful.audits.similarity:ImageText",
        "shortcuts": "handful.audits.shortcuts:Shortcuts",
        "composition": "handful.audits.composition:Composition",
        "structural-bias": "handful.audits.zero_shot.diagnosis:StructuralBias",
        "difficulty": "handful.audits.difficulty:Difficulty",
        "curves": "handful.audits.curves:Curves",
        "ceiling": "handful.audits.ceiling:SupervisedCeiling",
        "duplicates": "handful.audits.duplicates:Duplicates",
        "unreadable": "handful.audits.records:Unreadable",
        "imbalance": "handful.audits.records:Imbalance",
        "columns": "handful.audits.records:Columns",
        "overlap": "handful.audits.records:Overlap",
        "power": "handful.audits.power:Power",
        "encoder-seen": "handful.audits.encoder_seen:EncoderSeen",
        "score-split": "handful.audits.score_split:ScoreSplit",
    },
    "repairs": {
        "unreadable": "handful.repair.unreadable:UnreadableImages",
        "duplicates": "handful.repair.duplicates:Copies",
        "relatives": "handful.repair.relatives:Relatives",
        "splits": "handful.repair.splits:BestSplit",
        "contexts": "handful.repair.contexts:BalancedContexts",
        "shortcuts": "handful.repair.shortcuts:ShortcutWeights",
        "labels": "handful.repair.labels:WrongLabels",
        "small": "handful.repair.small:SmallClasses",
    },
}
SINGULAR = {"diagnoses": "diagnosis"}


@cache
def table(kind: str) -> dict[str, str]:
    """All names of one kind, built in or plugged in, with where each one lives."""
    if kind not in BUILTIN:
        raise BadInput(f"there is no registry of {kind!r}; {nearest(kind, BUILTIN)}")
    names = dict(BUILTIN[kind])
    for point in entry_points(group=f"handful.{kind}"):
        names.setdefault(point.name, point.value)
    return names


def names(kind: str) -> list[str]:
    return sorted(table(kind))


@cache
def get(kind: str, name: str) -> Any:
    """Import and return what ``name`` stands for, or say which names come near."""
    known = table(kind)
    if name not in known:
        raise BadInput(
            f"there is no {SINGULAR.get(kind, kind[:-1])} named {name!r}; {nearest(name, known)} "
            "(a plug-in's names are known once it is installed)"
        )
    module, _, attribute = known[name].partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a stranger's module fails as it likes
        if name in BUILTIN[kind]:
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise BadInput(
            f"the {SINGULAR.get(kind, kind[:-1])} {name} of a plug-in cannot be loaded from {known[name]} ({reason}); mend the "
            "plug-in or uninstall it"
        ) from error


def make(kind: str, name: str, options: Mapping[str, Any] | None = None, *first: Any) -> Any:
    """What ``name`` stands for, made with options: the one way from a name to a thing, whatever it is.

    ``first`` is what it is made on: a rule's part, a net's image shape, a tracker's folder and name. Options may be text;
    nested ones are dicts or dotted names (``schedule.steps``). Unknown names and wrong values are refused in one sentence.
    """
    return build(get(kind, name), unfolded(options or {}), f"the {SINGULAR.get(kind, kind[:-1])} {name}", *first)


def packaged() -> list[str]:
    """Names of the recipes that come with the library."""
    root = resources.files("handful") / "recipes"
    found = []
    for folder in sorted(root.iterdir(), key=lambda p: p.name):
        if folder.is_dir():
            found += [
                f"{folder.name}/{f.name[:-5]}"
                for f in sorted(folder.iterdir(), key=lambda p: p.name)
                if f.name.endswith(".toml")
            ]
    return found
