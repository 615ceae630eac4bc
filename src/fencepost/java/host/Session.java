package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** A connector or a task that was opened. Connections call it, several at the same time. */
interface Session {
    /** Do what the worker asks. Returns the records of a poll, null for everything else. */
    RecordColumns call(String operation, JsonNode request, ObjectNode answer) throws Exception;

    /** The calls from the plugin to the worker. */
    Events events();

    /** Return once no code of the plugin runs on a thread of this session. */
    void close() throws Exception;
}
