"""Watches torch.distributed: its process groups, their operations, and the waits for them.

Where PyTorch has one place that all callers pass, that place is wrapped: the methods of the class
ProcessGroup, Work.wait, and the two functions that make groups. The functions that programs call
(torch.distributed.all_reduce and so on) stay what they are. What this PyTorch lacks is left out and
named in `missing`.

No exception of this file reaches the job.
"""

import os
import sys
import threading
import weakref

from gordian_torch import names, operations
from gordian_torch.operations import is_short
from gordian_torch.groups import Group, Groups, hash_of
from gordian_torch.shim import FAILED, RUNS_OTHERS, Shim
from gordian_torch.sites import Sites, site_of


class _Held(weakref.ref):
    """A Work that has not been waited for, and its operation."""

    __slots__ = ("operation", "key")


_WORD = (1 << 64) - 1
_RENDEZVOUS = b"rendezvous"  # what the meeting of all ranks is called
_UNFOLLOWED = ("a call that is not followed, nor what it does in C++",)

missing = []  # names of functions that this PyTorch has not


class FrontEnd:
    def __init__(self, module, shim):
        self.module = module
        self.shim = shim
        folder = os.path.dirname(os.path.abspath(__file__))
        torch = os.path.dirname(os.path.dirname(os.path.abspath(module.__file__)))
        self.sites = Sites(shim, (folder, torch))
        self.groups = Groups()
        self.keys = set()  # that the analyzer can name
        self.works = {}  # id of a Work -> _Held
        self.local = threading.local()  # .inside: in a call that makes a group
        self.backwards = []  # lines of the job whose backward passes run
        self.seen = frozenset()  # methods whose calls on gloo's groups the shim sees in C++
        self.layout = None  # of tensors, once it is measured; False: not known
        self.whole = False  # PyTorch has been imported, and what is not torch.distributed's is wrapped

    def look_into(self):
        """Has the shim see calls in C++, where it can (gloo_entries.cc, store_entries.cc)."""
        path = getattr(sys.modules.get("torch._C"), "__file__", None)
        if path is not None and os.environ.get("GORDIAN_TORCH") != "python":
            self.seen = frozenset(self.shim.gloo(os.fsencode(path)).decode().split())
            self.shim.store(os.fsencode(path))

    def new_group(self):
        """An id for a group that is about to be made; 0: it goes unseen."""
        if self.seen:
            if self.layout is None:  # PyTorch makes no tensors before it has been imported whole
                self.layout = operations.tensor_layout()
            if self.layout:
                elements_at, type_at, types = self.layout
                self.shim.layout(elements_at, type_at, types, len(types))
        return self.shim.group()

    def inside(self):
        return getattr(self.local, "inside", 0)

    def forget(self):
        """In a forked child: its ring is new, and groups do not survive a fork."""
        self.sites.forget()
        self.groups.forget()
        self.works.clear()
        self.keys.clear()
        self.local = threading.local()
        self.backwards = []

    # The ranks meet before there is a group.

    def before_meeting(self, hostname, port, rank, world_size, *args, **kwargs):
        """Rank 0 returns when all ranks have come, the others when rank 0 has. Where a launcher keeps
        the store, none waits for another, and none stays here."""
        try:
            if rank is None or rank < 0 or not world_size or world_size < 0:
                return None
            comm = self.shim.group()
            if comm == 0:
                return None
            self.groups.meetings += 1
            uid = hash_of(*self.groups.job(), "meeting", port, self.groups.meetings)
            self.shim.text(self.shim.calls["group"], comm, _RENDEZVOUS, len(_RENDEZVOUS))
            self.shim.init(self.shim.calls["init_process_group"], comm, uid, world_size, rank, 0, 0,
                           self.sites.of_caller(1))
            self.local.inside = self.inside() + 1
            return (comm,)
        except Exception:
            return None

    def after_meeting(self, token, result):
        try:
            self.local.inside = self.inside() - 1
            self.shim.made(self.shim.calls["init_process_group"], token[0], 0, -1,
                           int(result is FAILED))
        except Exception:
            pass

    # Groups.

    def before_helper(self, group_size, group_rank, global_ranks_in_group, backend, *args, **kwargs):
        try:
            ranks = list(global_ranks_in_group or range(group_size))
            if group_rank is None or group_rank < 0 or group_size <= 0:
                return None
            world = not global_ranks_in_group
            if not world and self.groups.world is not None:
                if self.groups.world.rank not in ranks:
                    return None  # no member: the call returns at once
            comm = self.new_group()
            if comm == 0:
                return None
            if world:
                self.groups.generation += 1
                self.wrap_the_rest()
            name = kwargs.get("group_name")
            if name is None:
                name = getattr(self.module, "_group_count", 0)
            host = "gloo" in str(backend).lower() or str(backend).lower() in ("undefined", "none")
            group = self.member_of(comm, name, ranks, group_rank, host, kwargs.get("group_desc"))
            if world:
                self.groups.world = group
            return group
        except Exception:
            return None

    def member_of(self, comm, name, ranks, rank, host, description):
        """The group that is about to be made. `ranks`: of the whole job; `rank`: this one's in it."""
        self.name_world()
        uid = hash_of(*self.groups.job(), self.groups.generation, name, ranks)
        group = Group(comm, uid, rank, len(ranks), ranks, host)
        if host:
            self.shim.init(self.shim.calls["init_process_group"], comm, uid, group.size, rank, 0, 0,
                           self.sites.of_caller(1))
        self.name(group, names.described(description))
        self.local.inside = self.inside() + 1
        return group

    def before_split(self, parent, ranks, timeout=None, opts=None, group_name=None, group_desc=None,
                     *args, **kwargs):
        """`ranks`: of the parent. DeviceMesh makes the groups of its dimensions so."""
        try:
            known = self.groups.by_group.get(parent)
            if known is None or known.rank not in ranks:
                return None
            comm = self.new_group()
            if comm == 0:
                return None
            return self.member_of(comm, group_name, [known.ranks[rank] for rank in ranks],
                                  list(ranks).index(known.rank), known.host, group_desc)
        except Exception:
            return None

    def name_world(self):
        """Names the default group before the job makes others: unnamed, it would be counted among them."""
        world = self.groups.world
        if world is None or world.named:
            return
        for group, known in self.groups.by_group.items():
            if known is world:
                self.name(known, self.name_of(known, group))
                return

    def name_of(self, known, group):
        return names.of_group(group) or ("world" if known is self.groups.world else None)

    def name(self, group, name):
        """Once. `name` may be known only after the group has been made."""
        if group.named or not name:
            return
        text = str(name).encode("utf-8", "replace")[:256]
        if group.host:
            self.shim.text(self.shim.calls["group"], group.comm, text, len(text))
        else:
            self.shim.name(group.comm, text, len(text))
        group.named = True

    def after_helper(self, group, result):
        try:
            self.local.inside = self.inside() - 1
            made = result[0] if isinstance(result, tuple) else result
            failed = result is FAILED or made is None
            if group.host:
                self.shim.made(self.shim.calls["init_process_group"], group.comm, group.size,
                               group.rank, int(failed))
                group.bound = bool(self.layout and self.shim.bound(group.comm))
            if not failed:
                self.groups.by_group[made] = group
        except Exception:
            pass

    # Groups that the job makes from gloo's class itself.

    def before_prefix(self, store, prefix=None, inner=None, *args, **kwargs):
        try:
            return store, str(kwargs.get("prefix", prefix)), kwargs.get("store", inner)
        except Exception:
            return None

    def after_prefix(self, token, result):
        try:
            store, prefix, inner = token
            prefixes = self.groups.prefixes
            known = prefixes.get(id(inner))
            if known is not None and known[0]() is inner:
                prefix = f"{known[1]}/{prefix}"
            number = id(store)
            prefixes[number] = (weakref.ref(store, lambda _: prefixes.pop(number, None)), prefix)
        except Exception:
            pass

    def before_own(self, group, store=None, rank=None, size=None, *args, **kwargs):
        """gloo's groups alone, which the shim must see: who issues on them is not asked."""
        try:
            if self.inside() or self.groups.world is None or not self.seen:
                return None
            rank, size = kwargs.get("rank", rank), kwargs.get("size", size)
            known = self.groups.prefixes.get(id(kwargs.get("store", store)))
            prefix = known[1] if known is not None else ""
            times = self.groups.made[prefix, size] = self.groups.made.get((prefix, size), 0) + 1
            comm = self.new_group()
            if comm == 0:
                return None
            uid = hash_of(*self.groups.job(), self.groups.generation, "own", prefix, size, times)
            if prefix:
                text = prefix.encode("utf-8", "replace")[:256]
                self.shim.text(self.shim.calls["group"], comm, text, len(text))
            self.shim.init(self.shim.calls["init_process_group"], comm, uid, int(size), int(rank), 0, 0,
                           self.sites.of_caller(1))
            self.local.inside = self.inside() + 1
            return group, comm, int(size), int(rank)
        except Exception:
            return None

    def after_own(self, token, result):
        try:
            group, comm, size, rank = token
            self.local.inside = self.inside() - 1
            self.shim.made(self.shim.calls["init_process_group"], comm, size, rank,
                           int(result is FAILED))
            own, number = self.groups.own, id(group)

            def gone(_):
                own.pop(number, None)
                self.shim.destroyed(self.shim.calls["destroy_process_group"], comm, 0)

            if result is not FAILED:
                own[number] = weakref.ref(group, gone)
        except Exception:
            pass

    def before_barrier(self, *args, **kwargs):
        """All ranks of the job meet here after they have made a group."""
        try:
            world = self.groups.world
            if world is None or not world.host or self.inside():
                return None
            self.groups.barriers += 1
            comm = self.shim.group()
            uid = hash_of(world.uid, "barrier", self.groups.barriers)
            self.shim.init(self.shim.calls["new_group"], comm, uid, 0, -1, world.comm, -1,
                           self.sites.of_caller(1))
            self.local.inside = self.inside() + 1
            return comm
        except Exception:
            return None

    def after_barrier(self, comm, result):
        try:
            self.local.inside = self.inside() - 1
            self.shim.made(self.shim.calls["new_group"], comm, 0, -1, int(result is FAILED))
        except Exception:
            pass

    def before_destroy(self, group=None, *args, **kwargs):
        try:
            all_groups = group is None or group is self.module.GroupMember.WORLD
            gone = list(self.groups.by_group) if all_groups else [group]
            for one in gone:
                known = self.groups.by_group.pop(one, None)
                if known is not None and known.host:
                    self.shim.destroyed(self.shim.calls["destroy_process_group"], known.comm,
                                        self.sites.of_caller(1))
            if all_groups:
                self.groups.world = None
        except Exception:
            pass
        return None

    # Operations.

    def method(self, name, row, describe, waits):
        """The two halves around a method of ProcessGroup. `waits`: it returns when it is done."""
        shim = self.shim
        call = shim.calls[row]
        wait_call = shim.calls["wait"]
        line_of = self.sites.line_of
        line_within = self.sites.within(row).line_of
        get_frame = sys._getframe
        record = shim.operation
        record_wait = shim.wait
        works = self.works
        drop = self.drop
        part = 1 if row == "send" else 2 if row == "recv" else 0
        seen = name in self.seen
        groups = self.groups

        def before(pg, *args, **kwargs):
            try:
                group = groups.by_group.get(pg)
                if group is None:
                    return line_within(get_frame(1)) or self.line_behind()
                if not group.named:
                    self.name(group, self.name_of(group, pg))
                    group.named = True
                if not group.host:
                    return group.upper | (line_within(get_frame(1)) or self.line_behind())
                if seen and group.bound:
                    return line_of(get_frame(1)) or self.line_behind()
                described = describe(args, kwargs)
                if described is None:
                    return _UNFOLLOWED
                root, count, types, tag = described
                comm = group.comm
                peer = root & _WORD if part else 0
                frame = get_frame(1)
                site = site_of(line_of(frame) or self.line_behind())
                number = record(call, comm, root, count, types, tag, site)
                if waits:
                    record_wait(wait_call, comm, number, 0, 0, site)
                return comm, number, part, peer
            except Exception:
                return None

        def after(operation, work):
            try:
                if operation is _UNFOLLOWED:
                    pass
                elif waits:
                    shim.waited(wait_call, 0)
                elif work is not FAILED:
                    held = _Held(work, drop)
                    held.operation = operation
                    held.key = id(work)
                    works[held.key] = held
                else:  # it raised: nothing waits for it
                    shim.seen(wait_call, *operation, 0)
            except Exception:
                pass

        return before, after

    def line(self, group, *args, **kwargs):
        """The half before a function that issues operations on the group."""
        try:
            line = self.sites.line_of(sys._getframe(1))
            known = self.groups.by_group.get(group)
            if known is None:
                return line
            if not known.named:
                self.name(known, self.name_of(known, group))
                known.named = True
            return known.upper | line
        except Exception:
            return None

    def line_around(self, call):
        """The half before a function that issues operations in C++, or runs what does. `call`: as
        what it is shown; "": as itself."""
        line_of = (self.sites.within(call) if call else self.sites).line_of
        get_frame = sys._getframe

        def before(*args, **kwargs):
            try:
                return RUNS_OTHERS | line_of(get_frame(1))
            except Exception:
                return None

        return before

    def line_behind(self):
        """The line that called backward(), if one backward pass runs, and else 0: for operations
        with no code of the job on the stack, as FSDP's hooks issue in threads of autograd."""
        lines = set(self.backwards)
        return lines.pop() if len(lines) == 1 else 0

    def say_backward(self):
        """For what C++ issues in a thread of autograd."""
        self.shim.backward(site_of(self.line_behind()))

    def before_backward(self, *args, **kwargs):
        try:
            line = self.sites.within("backward").line_of(sys._getframe(1))
            self.backwards.append(line)
            self.say_backward()
            return (line,)
        except Exception:
            return None

    def after_backward(self, token, result):
        try:
            self.backwards.remove(token[0])
            self.say_backward()
        except Exception:
            pass

    def after_mesh(self, mesh, result):
        """Dimensions name their groups. That of all ranks may serve several, and others."""
        try:
            if result is FAILED:
                return
            for dimension, name in enumerate(mesh.mesh_dim_names or ()):
                known = self.groups.by_group.get(mesh.get_group(dimension))
                if known is not None and known is not self.groups.world:
                    self.name(known, name)
        except Exception:
            pass

    def wrap_the_rest(self):
        """Once, when a program makes its first group: PyTorch has been imported whole by then."""
        if self.whole:
            return
        self.whole = True
        try:
            autograd = sys.modules.get("torch.autograd")
            for name in ("backward", "grad"):
                _wrap_function(self, autograd, name, self.line_around("backward"), None, seen=True)
                _wrap_function(self, autograd, name, self.before_backward, self.after_backward)
            mesh = getattr(sys.modules.get("torch.distributed.device_mesh"), "DeviceMesh", None)
            if mesh is not None:
                _wrap_method(self, mesh, "__init__", lambda mesh, *args, **kwargs: mesh, self.after_mesh)
            for space in ("_c10d_functional", "_c10d_functional_autograd"):
                self.wrap_functional(getattr(sys.modules["torch"].ops, space))
        except Exception:
            pass

    def wrap_functional(self, space):
        """The operators that functional collectives are, which DTensor and compiled code call. Their
        objects stay what they are, so that PyTorch's compilers know them."""
        for name, call in operations.FUNCTIONAL.items():
            packet = getattr(space, name, None)
            for operator in (packet, getattr(packet, "default", None)):
                if hasattr(operator, "_op"):
                    _wrap_function(self, operator, "_op", self.line_around(call), None, seen=True)

    def drop(self, held):
        """Nothing can wait for the Work any more, and what others need of it, its start, has been."""
        try:
            if self.works.get(held.key) is held:
                del self.works[held.key]
                self.shim.seen(self.shim.calls["wait"], *held.operation, 0)
        except Exception:
            pass

    def work(self):
        """The two halves around Work.wait."""
        shim = self.shim
        call = shim.calls["wait"]
        works = self.works
        sites = self.sites
        line_of = sites.line_of
        get_frame = sys._getframe
        record = shim.wait
        waited = shim.waited

        def before(work, *args, **kwargs):
            try:
                known = works.pop(id(work), None) if works else None
                if known is None or known() is not work:
                    return line_of(get_frame(1))
                if is_short(*args, **kwargs):
                    works[id(work)] = known  # the wait proves nothing
                    return None
                comm, number, part, peer = known.operation
                record(call, comm, number, part, peer, sites.of_frame(get_frame(1)))
                return (known,)
            except Exception:
                return None

        def after(known, result):
            try:
                waited(call, 1 if result is FAILED else 0)
            except Exception:
                pass

        return before, after

    def completed(self):
        """The two halves around Work.is_completed."""
        shim = self.shim
        call = shim.calls["wait"]
        works = self.works

        def before(work):
            try:
                known = works.get(id(work))
                return None if known is None or known() is not work else work
            except Exception:
                return None

        def after(work, result):
            try:
                if result is True:
                    shim.seen(call, *works.pop(id(work)).operation, 0)
            except Exception:
                pass

        return before, after

    # Stores.

    def key(self, name):
        """Its hash, which the analyzer can name from here on."""
        if isinstance(name, bytes):
            name = name.decode("utf-8", "replace")
        number = hash_of("key", name)
        if number not in self.keys:
            if len(self.keys) > 10000:
                self.keys.clear()
            self.keys.add(number)
            text = str(name).encode("utf-8", "replace")[:256]
            self.shim.text(self.shim.calls["key"], number, text, len(text))
        return number

    def store_waits(self, keys_of):
        """The two halves around a method that waits for keys. `keys_of`: its arguments to keys."""
        shim = self.shim
        call = shim.calls["store_wait"]

        def before(store, *args, **kwargs):
            try:
                if not self.groups.begun() or self.inside():
                    return None
                keys = keys_of(*args, **kwargs)
                if keys is None or len(keys) != 1:
                    return None  # none, or a limit of its own; of several any may be the missing one
                shim.wait(call, 0, 0, 0, self.key(keys[0]), self.sites.of_caller(1))
                return store
            except Exception:
                return None

        def after(store, result):
            try:
                shim.waited(call, int(result is FAILED))
            except Exception:
                pass

        return before, after

    def store_sets(self):
        """The half before a method that sets a key."""
        shim = self.shim
        call = shim.calls["store_wait"]

        def before(store, key=None, *args, **kwargs):
            try:
                if self.groups.begun() and not self.inside():
                    name = key if key is not None else kwargs.get("key")
                    shim.seen(call, 0, 0, 0, self.key(name), self.sites.of_caller(1))
            except Exception:
                pass
            return None

        return before

    # The end of a rank.

    def note_exception(self, kind, value, traceback):
        try:
            if not (self.groups.begun() or "RANK" in os.environ) or not issubclass(kind, Exception):
                return
            place = ""
            while traceback is not None:
                code = traceback.tb_frame.f_code
                if not place or not self.sites.is_own(code):
                    name = getattr(code, "co_qualname", code.co_name)
                    place = f" at {os.path.basename(code.co_filename)}:{traceback.tb_lineno} {name}()"
                traceback = traceback.tb_next
            said = " ".join(str(value).split())[:200]
            text = f"{kind.__name__}: {said}{place}".encode("utf-8", "replace")[:512]
            self.shim.text(self.shim.calls["exception"], 0, text, len(text))
        except Exception:
            pass

    def watch_exceptions(self):
        previous = sys.excepthook

        def excepthook(kind, value, traceback):
            self.note_exception(kind, value, traceback)
            previous(kind, value, traceback)

        sys.excepthook = excepthook


def _key_of_get(key):
    return [key]


def _keys_of_wait(keys, timeout=None):
    return None if is_short(timeout) else list(keys)


def _wrap_method(front, cls, name, before, after, seen=False):
    original = cls.__dict__.get(name)
    if original is None:
        missing.append(f"{cls.__name__}.{name}")
        return
    setattr(cls, name, front.shim.method_around(before, original, after, name, seen))


def _wrap_function(front, module, name, before, after, seen=False):
    original = getattr(module, name, None)
    if original is None:
        missing.append(name)
        return
    setattr(module, name, front.shim.around(before, original, after, name, seen))


# Of torch.distributed and the module that it has them from: they issue operations in C++.
_ISSUE = ("_broadcast_coalesced", "_verify_params_across_processes", "_verify_model_across_ranks")


def install(module):
    """`module`: torch.distributed.distributed_c10d, which has just been imported."""
    group_class = getattr(module, "ProcessGroup", None)
    work_class = getattr(module, "Work", None)
    if group_class is None or work_class is None:
        return None  # a PyTorch without distributed
    try:
        shim = Shim()
    except (OSError, AttributeError):
        return None  # the process does not have gordian's library
    front = FrontEnd(module, shim)
    front.look_into()
    # A program that makes a backend's group itself calls the class Backend, from PyTorch 2 on.
    backend_class = getattr(sys.modules.get("torch._C._distributed_c10d"), "Backend", None)
    for cls in filter(None, (group_class, backend_class)):
        for name, (row, describe, waits) in operations.METHODS.items():
            _wrap_method(front, cls, name, *front.method(name, row, describe, waits), seen=True)
    if hasattr(group_class, "split_group"):  # from PyTorch 2.9 on
        _wrap_method(front, group_class, "split_group", front.before_split, front.after_helper)
        _wrap_method(front, group_class, "split_group", front.line_around("split_group"), None,
                     seen=True)
    before, after = front.work()
    _wrap_method(front, work_class, "wait", before, after, seen=True)
    _wrap_method(front, work_class, "is_completed", *front.completed())
    store_class = getattr(module, "Store", None)
    if store_class is not None:
        for name, keys_of in (("get", _key_of_get), ("wait", _keys_of_wait)):
            _wrap_method(front, store_class, name, *front.store_waits(keys_of))
        for name in ("set", "add", "compare_set"):
            _wrap_method(front, store_class, name, front.store_sets(), None)
    for name, halves in (("PrefixStore", (front.before_prefix, front.after_prefix)),
                         ("ProcessGroupGloo", (front.before_own, front.after_own))):
        cls = getattr(module, name, None)
        if cls is not None:
            _wrap_method(front, cls, "__init__", *halves)
    meeting = sys.modules.get("torch.distributed.rendezvous")
    _wrap_function(front, meeting, "_create_c10d_store", front.before_meeting, front.after_meeting)
    _wrap_function(front, module, "_new_process_group_helper", front.before_helper,
                   front.after_helper)
    # Communicators that are made before the first operation.
    _wrap_function(front, module, "_new_process_group_helper", front.line_around(""), None, seen=True)
    _wrap_function(front, module, "_store_based_barrier", front.before_barrier,
                   front.after_barrier)
    _wrap_function(front, module, "destroy_process_group", front.before_destroy, None)
    for name in _ISSUE:
        for place in ("torch._C._distributed_c10d", "torch.distributed"):
            if hasattr(sys.modules.get(place), name):
                _wrap_function(front, sys.modules[place], name, front.line, None, seen=True)
    front.watch_exceptions()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=front.forget)
    return front
