"""What touches a device: synchronising, flushing caches, timing one call, counting memory, measuring ceilings."""
