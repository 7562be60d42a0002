"""The names of `oracle` that users import; it is imported when one of them is asked for."""

from oracle.bounds.enclosure import permitted as permitted
from oracle.errors import DeviceLostError as DeviceLostError
from oracle.errors import InfrastructureError as InfrastructureError
from oracle.errors import UndefinedProgramError as UndefinedProgramError
from oracle.errors import UsageError as UsageError
from oracle.errors import WarpfuzzError as WarpfuzzError
from oracle.execution.block_scale import mma_block_scale as mma_block_scale
from oracle.execution.execution import Expectation as Expectation
from oracle.execution.execution import execute as execute
from oracle.execution.execution import mma as mma
from oracle.execution.execution import mma_sp as mma_sp
from oracle.execution.execution import mma_sync as mma_sync
from oracle.isa.legality import Explanation as Explanation
from oracle.isa.legality import Verdict as Verdict
from oracle.isa.legality import explain as explain
from oracle.isa.targets import Module as Module
from oracle.layouts import ldmatrix as ldmatrix
from oracle.layouts import movmatrix as movmatrix
from oracle.layouts import stmatrix as stmatrix
from oracle.models import Model as Model
from oracle.models import model_for as model_for
from oracle.models.files import model_header as model_header
from oracle.models.files import model_json as model_json
from oracle.models.files import model_text as model_text
from oracle.models.files import read_model as read_model
from oracle.program.program import Program as Program
