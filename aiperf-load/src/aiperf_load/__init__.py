"""Load on an inference server that streams tokens: arrivals, a client, statistics, sweeps and two test servers."""
