"""Where a prediction holds: in which engine, on which device, and on how many of them a target and its draft fit."""

from __future__ import annotations

from typing import NamedTuple

from draftpick.catalog import Catalog
from draftpick.choices import MEMORY, REFERENCE_DEVICE, REFERENCE_DEVICES
from draftpick.memory import (
    budget,
    device_memory,
    devices_needed,
    splits,
)
from draftpick.models.profile import ModelProfile
from draftpick.pair import NOTHING, Device, Engine, Pair, Setting
from draftpick.sizes import weight_bytes


class Place(NamedTuple):
    """What a prediction holds for."""

    engine: Engine
    device: Device
    assumed: bool
    """Nobody named the device: it is the reference one of the engine."""
    devices: int
    """The tensor-parallel size asked for, or the smallest that holds the target and leaves room for a small draft."""
    batch: int
    """Sequences at once."""
    crowded: bool = False
    """This draft takes more devices than the others."""
    splits: bool = True
    """There is a number of devices that holds the pair and divides its heads."""
    free: int | None = None
    """Bytes of each device that the target and one sequence leave; None: not known."""

    @property
    def overreaches(self) -> bool:
        """Whether more devices would be needed than can work together."""
        return self.device.devices_per_node == 1 and self.devices > 1


class Places:
    """The places of one target, one for each engine: all its drafts are compared there."""

    def __init__(self, target: ModelProfile, setting: Setting, catalog: Catalog) -> None:
        self._target = target
        self._setting = setting
        self._catalog = catalog
        self._found: dict[str, Place] = {}

    def roomy(self, key: str) -> Place:
        """Where the target and a small draft have room, in the engine of that key."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._find_place(key)
        return found

    def engine(self, key: str) -> Engine:
        """The engine of that key, in the version asked for."""
        asked = self._setting.engine
        return asked if asked is not None and asked.key == key else self._catalog.engine(key)

    def of(self, pair: Pair, engine: str) -> Place:
        """The same, with as many devices as hold this draft too."""
        place = self.roomy(engine)
        if place.devices > pair.setting.tensor_parallel_size and splits(placed_in(pair, place), place.devices) is False:
            # The rules judged the devices that were asked for: the heads of this draft need another number of them.
            one = placed_in(pair, place._replace(devices=1))
            fewest = _needed(one)[1]
            return place._replace(devices=fewest or place.devices, crowded=True, splits=fewest is not None)
        if self._fits_easily(pair, place):
            return place
        need = self._devices(placed_in(pair, place))
        return place if need <= place.devices else place._replace(devices=need, crowded=True)

    def _find_place(self, key: str) -> Place:
        setting = self._setting
        engine = self.engine(key)
        device = setting.device or self._catalog.device(REFERENCE_DEVICES.get(key, REFERENCE_DEVICE))
        place = Place(engine, device, setting.device is None, setting.tensor_parallel_size, setting.max_num_seqs or 1)
        devices = max(place.devices, self._devices(placed_in(Pair(self._target, NOTHING, setting), place)))
        place = place._replace(devices=devices)
        place = place._replace(free=self._free(place))
        weights = weight_bytes(self._target, quantization=setting.quantization, engine=key) or 0
        crammed = place.free is not None and place.free * devices < MEMORY["small-draft"] * weights
        if crammed and setting.tensor_parallel_size == 1 and devices > 1:
            place = place._replace(devices=2 * devices)
            place = place._replace(free=self._free(place))
        return place

    def _free(self, place: Place) -> int | None:
        """Bytes of each device that the target and one sequence leave; None where nobody can tell."""
        setting = self._setting
        alone = placed_in(Pair(self._target, NOTHING, setting._replace(max_model_len=None, max_num_seqs=None)), place)
        held = budget(alone, memory=setting.memory, gpu_memory_utilization=setting.gpu_memory_utilization)
        return held.per_device_bytes.free

    def _fits_easily(self, pair: Pair, place: Place) -> bool:
        """Whether a draft is so small that the place holds it without a budget of its own."""
        draft, head = pair.draft, pair.proposal.head
        params = (
            draft.params_total or draft.params_text if draft is not None else head.params if head is not None else 0
        )
        if params is None or place.free is None:
            return False
        # Two bytes a parameter on one device: the least that a draft is split, the most that it usually stores.
        return 2 * params < MEMORY["easy-fit"] * place.free

    def _devices(self, placed: Pair) -> int:
        """How many devices hold the weights and one sequence; more of them may be needed for the whole load."""
        setting = placed.setting
        fits, fewest = _needed(placed)
        if fits:
            return setting.tensor_parallel_size
        assert setting.device is not None
        assert setting.engine is not None
        return fewest or self._by_weights(setting.device, setting.engine, setting)

    def _by_weights(self, device: Device, engine: Engine, setting: Setting) -> int:
        """The power of two of devices that holds the weights, for caches whose shape nobody knows."""
        weights = weight_bytes(self._target, quantization=setting.quantization, engine=engine.key)
        room = (setting.memory or device_memory(device) or 0) * MEMORY["utilization"]
        devices = 1
        while weights is not None and room and weights > room * devices and devices < MEMORY["max-devices"]:
            devices *= 2
        return devices


def placed_in(pair: Pair, place: Place) -> Pair:
    """The pair with the setting of a place."""
    setting = pair.setting._replace(engine=place.engine, device=place.device, tensor_parallel_size=place.devices)
    return pair._replace(setting=setting)


def _needed(placed: Pair) -> tuple[bool | None, int | None]:
    """Whether the weights and one sequence fit, and the fewest devices that hold them."""
    setting = placed.setting
    one = placed._replace(setting=setting._replace(max_model_len=None, max_num_seqs=None))
    return devices_needed(one, memory=setting.memory, gpu_memory_utilization=setting.gpu_memory_utilization)
