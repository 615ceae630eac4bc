package org.apache.kafka.connect.mirror;

/** Has the package of MirrorMaker's tasks, which the host knows by it. */
public final class MirrorTask extends fencepost.host.CallOrder.OfBoth { }
