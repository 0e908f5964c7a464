"""The last line: the keys that work now.

A single widget draws the line. Textual's own footer makes a widget for each key, and makes all of them again whenever
the focus moves, which took half of the time of opening a screen.
"""

from typing import ClassVar

from rich.text import Text
from textual.events import MouseDown
from textual.screen import Screen
from textual.widget import Widget

KEY, ABOUT = "keys--key", "keys--about"


class Keys(Widget):
    """The keys of the screen with what they do, from the left as far as the width allows. A click presses a key."""

    DEFAULT_CSS = """
    Keys { dock: bottom; height: 1; color: $footer-foreground; background: $footer-background; }
    Keys > .keys--key { color: $footer-key-foreground; background: $footer-key-background; text-style: bold; }
    Keys > .keys--about { color: $footer-description-foreground; background: $footer-description-background; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {KEY, ABOUT}

    def on_mount(self) -> None:
        """Draw again whenever other keys work."""
        self.screen.bindings_updated_signal.subscribe(self, self._changed)

    def _changed(self, _: "Screen[None]") -> None:
        self.refresh()

    def _shown(self) -> list[tuple[str, str, str]]:
        """The key, its name, and what it does; the first key of each action."""
        found: dict[str, tuple[str, str, str]] = {}
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show and active.enabled:
                told = (binding.key, self.app.get_key_display(binding), binding.description)
                found.setdefault(binding.action, told)
        return list(found.values())

    def render(self) -> Text:
        """The line."""
        key, about = (self.get_component_rich_style(name) for name in (KEY, ABOUT))
        line = Text(no_wrap=True, end="")
        for _, name, description in self._shown():
            if line.cell_len + Text(f"{name} {description}").cell_len > self.size.width:
                break
            line.append(name, key).append(f" {description}", about).append(" ")
        return line

    def on_mouse_down(self, event: MouseDown) -> None:
        """Press the key under the pointer."""
        at = 0
        for key, name, description in self._shown():
            end = at + Text(f"{name} {description}").cell_len
            if at <= event.x < end:
                self.app.simulate_key(key)
                return
            at = end + 1
