"""Where workers run: forked here, as ranks of torch's elastic launcher, or however a plugin starts them."""
