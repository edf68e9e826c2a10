# Written by handful.door.write() from the registry.

from handful.methods.adapters.clip_adapter import ClipAdapter
from handful.methods.adapters.coop import CoCoOp
from handful.methods.adapters.coop import CoOp
from handful.methods.adapters.lp_plus import LPPlus
from handful.methods.adapters.prompts import LinearProbe
from handful.methods.adapters.prompts import Prompts
from handful.methods.adapters.prototypes import CLAP
from handful.methods.adapters.prototypes import TaskRes
from handful.methods.adapters.tip_adapter import TipAdapter
from handful.methods.adapters.tip_adapter import TipAdapterF
from handful.methods.causal.ifsl import IFSLMAML
from handful.methods.causal.ifsl import IFSLMTL
from handful.methods.causal.ifsl import IFSLMatchingNet
from handful.methods.causal.ifsl import IFSLSIB
from handful.methods.clustering.ccn import CCN
from handful.methods.clustering.centroid import CentroidNet
from handful.methods.clustering.references import KMeans
from handful.methods.clustering.references import ProtoKMeans
from handful.methods.compositional.cge import CGE
from handful.methods.compositional.cge import CGEWords
from handful.methods.compositional.lifted import PairANIL
from handful.methods.compositional.lifted import PairBaseline
from handful.methods.compositional.lifted import PairBaselinePP
from handful.methods.compositional.lifted import PairMAML
from handful.methods.compositional.lifted import PairMatchingNet
from handful.methods.compositional.lifted import PairProtoNet
from handful.methods.compositional.lifted import PairRelationNet
from handful.methods.compositional.redwine import RedWine
from handful.methods.compositional.refined_protonet import RefinedProtoNet
from handful.methods.compositional.refined_protonet import RefinedProtoNetWords
from handful.methods.compositional.symnet import SymNet
from handful.methods.compositional.symnet import SymNetWords
from handful.methods.compositional.visualprod import VisualProd
from handful.methods.contract import Learner
from handful.methods.contract import Method
from handful.methods.contract import Predictor
from handful.methods.contract import load
from handful.methods.contract import make
from handful.methods.crossdomain.ata import GNNATA
from handful.methods.crossdomain.ata import RelationNetATA
from handful.methods.crossdomain.ata import TPNATA
from handful.methods.crossdomain.ft import GNNFT
from handful.methods.crossdomain.ft import RelationNetFT
from handful.methods.crossdomain.ft import TPNFT
from handful.methods.crossdomain.lft import GNNLFT
from handful.methods.crossdomain.lft import RelationNetLFT
from handful.methods.crossdomain.lft import TPNLFT
from handful.methods.crossdomain.lrp import GNNLRP
from handful.methods.crossdomain.lrp import RelationNetLRP
from handful.methods.crossdomain.lrp import TPNLRP
from handful.methods.finetuning.baseline import Baseline
from handful.methods.finetuning.baseline import BaselinePP
from handful.methods.finetuning.contrastive import Contrastive
from handful.methods.finetuning.frn import FRN
from handful.methods.finetuning.knn import KNN
from handful.methods.finetuning.linear import Cosine
from handful.methods.finetuning.linear import Linear
from handful.methods.finetuning.lora import LPFT
from handful.methods.finetuning.lora import LoRA
from handful.methods.finetuning.lp_ft_fb import LPFTFB
from handful.methods.finetuning.neg_cosine import NegCosine
from handful.methods.finetuning.rfs import RFS
from handful.methods.finetuning.skd import SKD
from handful.methods.gradient.anil import ANIL
from handful.methods.gradient.boil import BOIL
from handful.methods.gradient.cdkt import CDKT
from handful.methods.gradient.cdkt import CDKTPL
from handful.methods.gradient.maml import FOMAML
from handful.methods.gradient.maml import MAML
from handful.methods.gradient.mtl import MTL
from handful.methods.gradient.r2d2 import R2D2
from handful.methods.gradient.sib import SIB
from handful.methods.gradient.versa import Versa
from handful.methods.metadl.finetuning import FineTuning
from handful.methods.metadl.metadelta import MetaDelta
from handful.methods.metadl.scratch import TrainFromScratch
from handful.methods.metric.can import CAN
from handful.methods.metric.can import TransductiveCAN
from handful.methods.metric.covamnet import CovaMNet
from handful.methods.metric.deepbdc import DeepBDC
from handful.methods.metric.deepbdc import STLDeepBDC
from handful.methods.metric.deta import DETA
from handful.methods.metric.dn4 import DN4
from handful.methods.metric.fgfl import FGFL
from handful.methods.metric.gnn import GNN
from handful.methods.metric.matchingnet import MatchingNet
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.methods.metric.protonet import ProtoNet
from handful.methods.metric.putm import PUTM
from handful.methods.metric.relationnet import RelationNet
from handful.methods.metric.renet import RENet
from handful.methods.metric.tpn import TPN
from handful.methods.metric.tsa import TSA
from handful.methods.selfsupervised.bf3s import BF3S
from handful.methods.selfsupervised.bf3s import BF3SCosine
from handful.methods.selfsupervised.hts import HTS
from handful.methods.selfsupervised.moco import MoCo
from handful.methods.selfsupervised.simclr import SimCLR
from handful.methods.selfsupervised.sla import SLA
from handful.methods.selfsupervised.ssfsl import SSFSL
from handful.methods.zero_shot.adgpm import ADGPM
from handful.methods.zero_shot.cmt import CMT
from handful.methods.zero_shot.conse import ConSE
from handful.methods.zero_shot.devise import DeViSE
from handful.methods.zero_shot.eszsl import ESZSL
from handful.methods.zero_shot.gcnz import GCNZ
from handful.methods.zero_shot.latem import LATEM
from handful.methods.zero_shot.sgcn import SGCN
from handful.methods.zero_shot.sync import SYNC
from handful.methods.zero_shot.trivial import Trivial

__all__ = [
    "ADGPM",
    "ANIL",
    "BF3S",
    "BF3SCosine",
    "BOIL",
    "Baseline",
    "BaselinePP",
    "CAN",
    "CCN",
    "CDKT",
    "CDKTPL",
    "CGE",
    "CGEWords",
    "CLAP",
    "CMT",
    "CentroidNet",
    "ClipAdapter",
    "CoCoOp",
    "CoOp",
    "ConSE",
    "Contrastive",
    "Cosine",
    "CovaMNet",
    "DETA",
    "DN4",
    "DeViSE",
    "DeepBDC",
    "ESZSL",
    "FGFL",
    "FOMAML",
    "FRN",
    "FineTuning",
    "GCNZ",
    "GNN",
    "GNNATA",
    "GNNFT",
    "GNNLFT",
    "GNNLRP",
    "HTS",
    "IFSLMAML",
    "IFSLMTL",
    "IFSLMatchingNet",
    "IFSLSIB",
    "KMeans",
    "KNN",
    "LATEM",
    "LPFT",
    "LPFTFB",
    "LPPlus",
    "Learner",
    "Linear",
    "LinearProbe",
    "LoRA",
    "MAML",
    "MTL",
    "MatchingNet",
    "MetaDelta",
    "Method",
    "MoCo",
    "NearestCentroid",
    "NegCosine",
    "PUTM",
    "PairANIL",
    "PairBaseline",
    "PairBaselinePP",
    "PairMAML",
    "PairMatchingNet",
    "PairProtoNet",
    "PairRelationNet",
    "Predictor",
    "Prompts",
    "ProtoKMeans",
    "ProtoNet",
    "R2D2",
    "RENet",
    "RFS",
    "RedWine",
    "RefinedProtoNet",
    "RefinedProtoNetWords",
    "RelationNet",
    "RelationNetATA",
    "RelationNetFT",
    "RelationNetLFT",
    "RelationNetLRP",
    "SGCN",
    "SIB",
    "SKD",
    "SLA",
    "SSFSL",
    "STLDeepBDC",
    "SYNC",
    "SimCLR",
    "SymNet",
    "SymNetWords",
    "TPN",
    "TPNATA",
    "TPNFT",
    "TPNLFT",
    "TPNLRP",
    "TSA",
    "TaskRes",
    "TipAdapter",
    "TipAdapterF",
    "TrainFromScratch",
    "TransductiveCAN",
    "Trivial",
    "Versa",
    "VisualProd",
    "load",
    "make",
]
