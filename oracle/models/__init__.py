"""Models: what each target computes, as data with a source and a confidence for each figure.

The figures of a target stand in a TOML file of this folder, in the format of
`oracle.models.files`; a person's own file has the same. Their sources, by short name:

H200
    Measured on one NVIDIA H200 (compute capability 9.0, driver 580.159.04, CUDA 13.0), 2026-11:
    all 138 documented variants on random bits, normal, wide-exponent and near-cancelling inputs,
    0 differing outputs of several million.
MMA-Sim
    `mmasim` 2.1.1 (Microsoft), nv_ptx/sim.py: its figures for `mma`, not `wmma`; of m8n8k4 from
    sm_80 on it has none; of scaled blocks (`st_fdpa`, `gst_fdpa`) those of sm_120.
MATLAB-tensor-core
    Dot products recorded by Khattak and Mikaitis on V100, A100, A2, Ada, L40S, H100, H200 and
    B200 (commit b12b5a7, 2026-08): tests/data/gpu_dot_products.npz. They check the kept bits and
    the block length of one block, not the zero exponent nor the order of blocks; those of 8 bits
    on Ada and L40S (ada_byte_dot_products.npz) are two blocks.
SageAttention2
    Zhang and others, quoted in thu-ml/SageAttention, issue 287: with A and B zero, an f32 C of a
    product of 8 bits comes back with its low 10 bits cleared, on Ada and Hopper. (Of Hopper's
    wgmma DeepSeek-V3 says the same, quoted in deepseek-ai/DeepGEMM, issue 37.)
SASS
    What ptxas 13.0 emits for the target, disassembled, 2026-11.
"""

from oracle.models.figures import NO_FIGURES as NO_FIGURES
from oracle.models.figures import CompilerRange as CompilerRange
from oracle.models.figures import Confidence as Confidence
from oracle.models.figures import DoubleChain as DoubleChain
from oracle.models.figures import ExactSum as ExactSum
from oracle.models.figures import Figure as Figure
from oracle.models.figures import Model as Model
from oracle.models.figures import NanRule as NanRule
from oracle.models.figures import ScalarDot as ScalarDot
from oracle.models.figures import ScaledDot as ScaledDot
from oracle.models.figures import TruncatedDot as TruncatedDot
from oracle.models.figures import Unit as Unit
from oracle.models.figures import figures_in as figures_in
from oracle.models.figures import values_in as values_in
from oracle.models.figures import weakest as weakest
from oracle.models.files import forget_models as forget_models
from oracle.models.files import model_for as model_for
from oracle.models.files import model_of as model_of
from oracle.models.files import use_model as use_model
