"""The names of `runners` that users import; it is imported when one of them is asked for."""

from runners.emission import emit as emit
from runners.emission import emit_all as emit_all
from runners.kernels import Kernel as Kernel
from runners.kernels import KernelModule as KernelModule
from runners.kernels import Launch as Launch
from runners.protocol import Compiled as Compiled
from runners.protocol import Failure as Failure
from runners.protocol import Ran as Ran
from runners.protocol import Runner as Runner
from runners.protocol import Trouble as Trouble
from runners.simulated import SimulatedDevice as SimulatedDevice
from runners.simulated import SimulatedTrap as SimulatedTrap
from runners.simulated_runner import SimulatedRunner as SimulatedRunner
