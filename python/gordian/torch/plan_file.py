"""Reads the plan.json of `gordian plan`, and says what each iteration sends and applies.

Needs no PyTorch. A file that could not be followed to the letter is refused with what is wrong
and where: another version, a hash that its schedule does not have, an item that is sent twice
or before its gradient.
"""

import json
from collections import namedtuple

SCHEMA = "gordian.plan.v1"
_HORIZON = 4  # periods: a generation is applied within two of its first gradient's

# elements: 0 of a whole bucket of unknown size.
Item = namedtuple("Item", "bucket first_element elements")
Send = namedtuple("Send", "link item generation")
Update = namedtuple("Update", "generation merged")
# forward, backward: what to send at the begin of each pass. ready: {bucket: what to send once it
# has its gradient}. generation: that of this iteration's gradients. formed: they are its last.
Iteration = namedtuple("Iteration", "forward backward ready generation formed updates")


class PlanError(ValueError):
    """A plan that cannot be followed, and why."""


class _Hash:
    """planner/hash.h: FNV-1a over words of 64 bits."""

    def __init__(self):
        self.value = 0xCBF29CE484222325

    def add(self, word):
        for byte in word.to_bytes(8, "little"):
            self._byte(byte)

    def add_text(self, text):
        self.add(len(text))
        for byte in text.encode():
            self._byte(byte)

    def _byte(self, byte):
        self.value = ((self.value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF


def hash_of(document):
    """The hash of a plan.json, from its items and schedule as planner::HashOf takes it."""
    digest = _Hash()
    digest.add_text(SCHEMA)
    digest.add(document["inputs"]["links"])
    for item in document["items"]:
        for key in ("bucket", "first_element", "elements"):
            digest.add(item[key])
    for part in ("warm_up", "period"):
        digest.add(len(document[part]))
        for iteration in document[part]:
            for stage in ("forward", "backward"):
                sends = [send for send in iteration["sends"] if send["stage"] == stage]
                digest.add(len(sends))
                for send in sends:
                    for key in ("link", "item", "generation"):
                        digest.add(send[key])
                    digest.add(int(send["when"] == "ready"))
            digest.add(len(iteration["updates"]))
            for update in iteration["updates"]:
                digest.add(update["generation"])
                digest.add(update["merged"])
    if document.get("merge", "sum") == "mean":
        digest.add_text("mean")
    return f"{digest.value:016x}"


class PlanFile:
    """A plan that has been checked: the same on every rank that has read the same bytes."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, encoding="utf-8") as file:
                document = json.load(file)
        except (OSError, ValueError) as error:
            raise PlanError(f"{path}: {error}") from error
        if not isinstance(document, dict) or "schema" not in document:
            raise PlanError(f"{path} is no plan: it has no field `schema`; `gordian plan ... -o "
                            "FILE` writes one")
        if document["schema"] != SCHEMA:
            raise PlanError(f"{path} has the schema {document['schema']}, and this "
                            f"gordian.torch.plan follows {SCHEMA} alone; use the gordian that "
                            "wrote it, or plan anew")
        try:
            self._read(document)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise PlanError(f"{path}: a field of {SCHEMA} is missing or of another type: "
                            f"{error!r}") from error
        self._check_items()
        self._check_schedule()

    def _read(self, document):
        self.hash = hash_of(document)
        if self.hash != document["hash"]:
            raise PlanError(f"{self.path} says its hash is {document['hash']}, and its schedule's "
                            f"is {self.hash}: it was changed by hand; plan anew")
        result = document["proof"]["result"]
        if result != "accepted":
            raise PlanError(f"{self.path} is a refused schedule ({document['proof']['refusal']}), "
                            "written to watch it hang")
        self.links = document["inputs"]["links"]
        self.merge = document.get("merge", "sum")
        self.step_us = document["predicted"]["step_us"]
        self.items = [Item(item["bucket"], item["first_element"], item["elements"])
                      for item in document["items"]]
        buckets = document["inputs"]["buckets"]
        self.elements = [bucket["elements"] for bucket in buckets]  # bucket 1 first; 0: not known
        self.names = [bucket.get("name", "") for bucket in buckets]
        self._warm_up, self._period = document["warm_up"], document["period"]
        self._generations = document["generations_per_period"]
        if self.links not in (1, 2) or self.merge not in ("sum", "mean"):
            raise PlanError(f"{self.path}: {self.links} links, merge {self.merge}: neither known "
                            "here")
        if not self._period or self._generations < 1:
            raise PlanError(f"{self.path}: no iteration of its period applies gradients")

    @property
    def buckets(self):
        return len(self.elements)

    def _shape(self, t):
        """Iteration t of the file, and what to add to its generations and to its iterations."""
        warm_up = len(self._warm_up)
        if t < warm_up:
            return self._warm_up[t], 0, 0
        turn, at = divmod(t - warm_up, len(self._period))
        return self._period[at], turn * self._generations, turn * len(self._period)

    def _check_items(self):
        covered = [0] * self.buckets
        pieces = [0] * self.buckets
        for number, item in enumerate(self.items):
            where = f"{self.path}: item {number}"
            if not 1 <= item.bucket <= self.buckets:
                raise PlanError(f"{where} is of bucket {item.bucket}, and there are {self.buckets}")
            if item.first_element != covered[item.bucket - 1]:
                raise PlanError(f"{where} begins at element {item.first_element} of bucket "
                                f"{item.bucket}, and the items before it end at "
                                f"{covered[item.bucket - 1]}")
            covered[item.bucket - 1] += item.elements
            pieces[item.bucket - 1] += 1
        for bucket, (count, elements) in enumerate(zip(pieces, self.elements), 1):
            if count == 0:
                raise PlanError(f"{self.path}: no item is of bucket {bucket}")
            if elements == 0 and count > 1:
                raise PlanError(f"{self.path} cuts bucket {bucket} into {count} items and does "
                                "not say where: give `elements` in the table that you plan from")
            if covered[bucket - 1] != elements:
                raise PlanError(f"{self.path}: the items of bucket {bucket} have "
                                f"{covered[bucket - 1]} elements, the bucket {elements}")

    def _check_schedule(self):
        """Follows the plan for some periods: each generation is formed, sent and applied once."""
        end = len(self._warm_up) + _HORIZON * len(self._period)
        self._formed = {}  # iteration of a generation's last gradient -> Update
        next_generation, next_gradient = 1, 0
        for t in range(end):
            shape, generations, iterations = self._shape(t)
            for update in shape["updates"]:
                generation = update["generation"] + generations
                first = update["first_gradient"] + iterations
                last = first + update["merged"] - 1
                following = (generation, first) == (next_generation, next_gradient)
                if not following or not first <= last <= t:
                    raise PlanError(f"{self.path}: iteration {t} applies generation {generation} "
                                    f"with the gradients of iterations {first} to {last}, and the "
                                    f"next is generation {next_generation}, whose first gradient "
                                    f"is of iteration {next_gradient}")
                self._formed[last] = Update(generation, update["merged"])
                next_generation, next_gradient = generation + 1, last + 1
        self._gradients = {}  # iteration -> generation of its gradients
        for last, update in self._formed.items():
            first = last - update.merged + 1
            self._gradients.update((t, update.generation) for t in range(first, last + 1))
        self._folded = len(self._warm_up) + len(self._period)
        if any(t not in self._gradients for t in range(self._folded)):
            raise PlanError(f"{self.path}: gradients of its first period are never applied")
        self._check_sends(end)

    def _check_sends(self, end):
        formed_in = {update.generation: t for t, update in self._formed.items()}
        sent = {}  # generation -> items
        for t in range(end):
            shape, generations, _ = self._shape(t)
            latest = {}  # link -> bucket of its last send that waits for a gradient
            for send in shape["sends"]:
                generation, number = send["generation"] + generations, send["item"]
                where = f"{self.path}: iteration {t} sends item {number} of generation {generation}"
                if not 0 <= number < len(self.items) or not 1 <= send["link"] <= self.links:
                    raise PlanError(f"{where} over link {send['link']}: there are "
                                    f"{len(self.items)} items and {self.links} links")
                if number in sent.setdefault(generation, set()):
                    raise PlanError(f"{where} for the second time")
                sent[generation].add(number)
                if generation not in formed_in:
                    continue  # applied after the horizon
                ready = send["when"] == "ready"
                if ready != (formed_in[generation] == t) or formed_in[generation] > t:
                    raise PlanError(f"{where}, whose last gradient is of iteration "
                                    f"{formed_in[generation]}")
                if ready:
                    bucket = self.items[number].bucket
                    if send["stage"] != "backward" or bucket > latest.get(send["link"], bucket):
                        raise PlanError(f"{where} out of the order in which a backward pass gives "
                                        "gradients")
                    latest[send["link"]] = bucket
            for update in shape["updates"]:
                generation = update["generation"] + generations
                missing = set(range(len(self.items))) - sent.pop(generation, set())
                if missing:
                    raise PlanError(f"{self.path}: iteration {t} applies generation "
                                    f"{generation} without item "
                                    f"{min(missing)}, which was not sent")

    def iteration(self, t):
        """Iteration t, from 0."""
        shape, generations, _ = self._shape(t)
        begin = {"forward": [], "backward": []}
        ready = {}
        for raw in shape["sends"]:
            send = Send(raw["link"], raw["item"], raw["generation"] + generations)
            if raw["when"] == "ready":
                ready.setdefault(self.items[send.item].bucket, []).append(send)
            else:
                begin[raw["stage"]].append(send)
        updates = [Update(update["generation"] + generations, update["merged"])
                   for update in shape["updates"]]
        turns = 0 if t < self._folded else (t - len(self._warm_up)) // len(self._period)
        folded = t - turns * len(self._period)
        return Iteration(begin["forward"], begin["backward"], ready,
                         self._gradients[folded] + turns * self._generations,
                         folded in self._formed, updates)
