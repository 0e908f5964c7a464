"""Whether a result may be believed."""
