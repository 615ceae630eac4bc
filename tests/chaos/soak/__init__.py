"""A soak: a group of workers at work while everything around them is killed, frozen, cut off and reconfigured.

    python -m tests.chaos.soak --minutes 10 --seed 7

`schedule` says what is done, `cluster` is what it is done to, `storm` does it, and `verdict` judges what is left: with
`fencepost verify`, which reads the topics with another client. A seed gives the same actions in the same order with the
same pauses; how far the group is at each of them is the machine's affair.
"""
