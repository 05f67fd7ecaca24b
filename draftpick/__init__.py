"""draftpick: which draft model to put in front of a target for speculative decoding."""

__version__ = "0.1.0"

__all__ = [
    "AdviceFile",
    "DraftpickError",
    "GateFile",
    "ProbeFile",
    "__version__",
    "check",
    "gate",
    "plan",
    "probe",
    "recommend",
]

TYPE_CHECKING = False  # not imported from typing: that alone would be most of what this module takes
if TYPE_CHECKING:
    from draftpick.advice_file import AdviceFile
    from draftpick.api import check, gate, plan, probe, recommend
    from draftpick.errors import DraftpickError
    from draftpick.gate_file import GateFile
    from draftpick.probe_file import ProbeFile
else:
    # The command starts through this module, and needs none of them.
    _HOMES = {
        **dict.fromkeys(("recommend", "check", "probe", "plan", "gate"), "api"),
        "DraftpickError": "errors",
        "AdviceFile": "advice_file",
        "ProbeFile": "probe_file",
        "GateFile": "gate_file",
    }

    def __getattr__(name):
        """One of `__all__`, loaded when it is first asked for."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        found = getattr(import_module(f"draftpick.{_HOMES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
