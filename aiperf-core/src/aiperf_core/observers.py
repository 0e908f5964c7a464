"""Tells observers of a run's course, and leaves out those that fail: an observer never costs a run."""

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING

from pluggy import PluginManager

from aiperf_core import __version__, hookspecs
from aiperf_core.distributions import Origin, SetAside

if TYPE_CHECKING:
    from pluggy import HookImpl

HOOKS = tuple(name for name in vars(hookspecs) if name.startswith("aiperf_"))
OBSERVER_HOOKS = tuple(name for name in HOOKS if getattr(hookspecs, name).__annotations__["return"] is None)


def new_manager() -> PluginManager:
    """Return a manager that knows the hooks and no plugin."""
    manager = PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


def describe(error: BaseException) -> str:
    """Return an exception's type and message in one line of bearable length."""
    try:
        message = " ".join(str(error).split())
    except Exception:  # a message that cannot be had is no reason to fail in its place
        message = ""
    text = f"{type(error).__name__}: {message}" if message else type(error).__name__
    return text if len(text) <= 300 else text[:299] + "…"


class Observers:
    """The observer hooks, one method each: `plugins.hook.aiperf_progress(progress=Progress(...))`.

    Each observer is called on its own. One that raises is left out from then on, logged as a warning and added to the
    plugins set aside; `KeyboardInterrupt` passes. Not thread-safe: call it from the thread that runs the run.
    """

    def __init__(self, manager: PluginManager, origins: MutableMapping[str, Origin], set_aside: list[SetAside]) -> None:
        self._manager = manager
        self._origins = origins
        self._set_aside = set_aside

    def add(self, observer: object, name: str) -> None:
        """Let an object observe: its methods marked `@hookimpl` are called like a plugin's. `name` says who it is."""
        self._origins[name] = Origin("aiperf-core", __version__, name, type(observer).__module__, lambda: observer)
        self._manager.register(observer, name)
        self._manager.check_pending()

    def __getattr__(self, hook: str) -> Callable[..., None]:
        if hook not in OBSERVER_HOOKS:
            raise AttributeError(f"{hook!r} is not an observer hook; known: {', '.join(OBSERVER_HOOKS)}")

        def tell(**event: object) -> None:
            # Reversed is pluggy's own order: the last registered first, within what `tryfirst` and `trylast` ask for.
            for implementation in reversed(getattr(self._manager.hook, hook).get_hookimpls()):
                # Outside the `try`: a hook called with the wrong arguments is a bug of the caller's.
                arguments = [event[name] for name in implementation.argnames]
                self._call(hook, implementation, arguments)

        return tell

    def _call(self, hook: str, implementation: "HookImpl", arguments: list[object]) -> None:
        try:
            implementation.function(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too: an observer has no say in when a run ends
            self._manager.unregister(implementation.plugin)
            origin = self._origins[implementation.plugin_name]
            skipped = origin.set_aside(f"'{hook}' raised {describe(error)}; it observes no more")
            self._set_aside.append(skipped)
            import logging

            # Not `warnings.warn`, which raises where warnings are errors.
            logging.getLogger(__name__).warning("%s", skipped)
