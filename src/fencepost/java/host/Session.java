package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** A connector or a task that was opened. Several connections may call it at the same time. */
interface Session {
    /** Handles a request of the worker. Returns the records of a poll; null for any other request. */
    RecordColumns call(String operation, JsonNode request, ObjectNode answer) throws Exception;

    /** Returns the channel for calls from the plugin to the worker. */
    Events events();

    /** Returns when no code of the plugin runs any more on a thread of this session. */
    void close() throws Exception;
}
