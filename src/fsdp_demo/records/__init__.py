"""What the instruments write down: plain numbers and strings that compare with `==`.

No module here imports torch.  A prediction and a measurement are the same records, so they are
compared as they are.  Names of units and parameters are clean: as the model had them before it was
wrapped, with `""` for the model itself.  Counts of numbers are called `numel`, counts of bytes
`nbytes`; ranges are half open, `start` to `stop`; ranks are global.
"""

from fsdp_demo.records.collective import Collective, Kind, Phase
from fsdp_demo.records.event import Event
from fsdp_demo.records.layout import FlatParameter, Layout, Padding, Parameter, Unit
from fsdp_demo.records.memory import EventKind, MemoryEvent
from fsdp_demo.records.shard import ParameterSlice, PartRow, Shard

__all__ = [
    "Collective",
    "Event",
    "EventKind",
    "FlatParameter",
    "Kind",
    "Layout",
    "MemoryEvent",
    "Padding",
    "Parameter",
    "ParameterSlice",
    "PartRow",
    "Phase",
    "Shard",
    "Unit",
]
