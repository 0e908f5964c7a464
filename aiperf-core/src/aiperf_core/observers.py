"""Calls observers of a run, and drops those that fail: an observer never ends a run."""

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING

from pluggy import PluginManager

from aiperf_core import hookspecs
from aiperf_core.distributions import Origin, SetAside
from aiperf_core.version import __version__

if TYPE_CHECKING:
    from pluggy import HookImpl

HOOKS = tuple(name for name in vars(hookspecs) if name.startswith("aiperf_"))
OBSERVER_HOOKS = tuple(name for name in HOOKS if getattr(hookspecs, name).__annotations__["return"] is None)


def new_manager() -> PluginManager:
    """A plugin manager that knows the hooks and no plugin."""
    manager = PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def describe(error: BaseException) -> str:
    """The type and message of an exception on one line, at most 300 characters."""
    try:
        message = " ".join(str(error).split())
    except Exception:  # `__str__` of a plugin's exception may raise
        message = ""
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"


class Observers:
    """The observer hooks as methods: `plugins.hook.aiperf_progress(progress=Progress(...))`.

    An observer that raises is not called again; it is logged as a warning and added to the skipped plugins.
    `KeyboardInterrupt` passes. Not thread-safe: call it only from the thread of the run.
    """

    def __init__(self, manager: PluginManager, origins: MutableMapping[str, Origin], set_aside: list[SetAside]) -> None:
        self._manager = manager
        self._origins = origins
        self._set_aside = set_aside

    def add(self, observer: object, name: str) -> None:
        """Add an observer: its methods marked `@hookimpl` are called like those of a plugin."""
        self._origins[name] = Origin("aiperf-core", __version__, name, type(observer).__module__, lambda: observer)
        self._manager.register(observer, name)
        self._manager.check_pending()

    def __getattr__(self, hook: str) -> Callable[..., None]:
        if hook not in OBSERVER_HOOKS:
            raise AttributeError(f"{hook!r} is not an observer hook; known: {', '.join(OBSERVER_HOOKS)}")

        def tell(**event: object) -> None:
            # Reversed, as pluggy does: last registered first, subject to `tryfirst` and `trylast`.
            for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
                # Outside the `try`: wrong arguments are a bug of the caller.
                arguments = [event[name] for name in implementation.argnames]
                self._call(hook, implementation, arguments)

        return tell

    def _call(self, hook: str, implementation: "HookImpl", arguments: list[object]) -> None:
        try:
            implementation.function(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: an observer must not end the run
            self._manager.unregister(implementation.plugin)
            origin = self._origins[implementation.plugin_name]
            skipped = origin.set_aside(f"'{hook}' raised {describe(error)}; it is not called again in this run")
            self._set_aside.append(skipped)
            import logging

            # Not `warnings.warn`: it raises where warnings are errors.
            logging.getLogger(__name__).warning("%s", skipped)
