"""The documents of other packages in a bundle: their names and places."""

from aiperf_core.results.filenames import target_name
from aiperf_core.results.models import Manifest


def sealed_names(manifest: Manifest, kind: str) -> list[str]:
    """The names of the documents of a kind in a sealed bundle, by its manifest alone."""
    begin, end = f"{kind}/", ".json"
    files = [one for one in manifest.hashes if one.startswith(begin) and one.endswith(end)]
    return sorted(target_name(one.removeprefix(begin).removesuffix(end)) for one in files)
