"""One trained model, and every technique a switch of it: what each is worth to one token of one model.

The corpus is made from a grammar whose entropy is known, so that quality is absolute: nats a token above the floor.
`aiperf labs one-model` plans, runs and shows the ladders.
"""
