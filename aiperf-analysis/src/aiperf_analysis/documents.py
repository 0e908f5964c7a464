"""The names of documents of other packages in a bundle."""

from aiperf_core.results.filenames import target_name
from aiperf_core.results.models import Manifest


def sealed_names(manifest: Manifest, kind: str) -> list[str]:
    """The names of the documents of a kind in a sealed bundle, by its manifest alone."""
    begin, end = f"{kind}/", ".json"
    files = [file for file in manifest.hashes if file.startswith(begin) and file.endswith(end)]
    return sorted(target_name(file.removeprefix(begin).removesuffix(end)) for file in files)
