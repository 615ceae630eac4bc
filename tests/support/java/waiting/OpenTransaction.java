package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;

/** Polls a task as a worker does, in transactions: the arguments are its class, and the number of polls of each. */
public final class OpenTransaction {
    static final String REQUEST = """
        {"jars": [], "name": "t", "owner": "c", "task": "0", "class": "%s", "config": {}, "boundary": "interval", "pipeline": {
         "converters": {
          "key.converter": {"jars": [], "class": "org.apache.kafka.connect.storage.StringConverter", "properties": {}},
          "value.converter": {"jars": [], "class": "org.apache.kafka.connect.storage.StringConverter", "properties": {}},
          "header.converter": {"jars": [], "class": "org.apache.kafka.connect.storage.SimpleHeaderConverter", "properties": {}}},
         "transforms": [],
         "errors": {"tolerates": false, "letters": false, "contents": false, "retry.timeout.ms": 0, "retry.delay.max.ms": 0}}}
        """;

    public static void main(String[] args) throws Exception {
        TaskSession task = new TaskSession(Wire.JSON.readTree(REQUEST.formatted(args[0])));
        ObjectNode answer = Wire.JSON.createObjectNode();
        task.call("start", answer, answer);
        JsonNode poll = Wire.JSON.readTree("{\"ms\": 1000}");
        int first = 0;
        for (int i = 1; i < args.length; i++) {
            int polls = Integer.parseInt(args[i]);
            for (int got = 0; got < polls; ) {
                RecordColumns records = task.call("poll", poll, answer);
                if (records == null) continue;
                records.describe(answer.removeAll(), new ArrayList<>());
                got++;
            }
            String places = "{\"topics\": [\"rows\"], \"count\": [%d], \"topic\": [0], \"partition\": [0], \"offset\": [%d], \"timestamp\": [1]}";
            ObjectNode commit = Wire.JSON.createObjectNode().put("batch", answer.get("batch").asLong());
            commit.set("written", Wire.JSON.readTree(places.formatted(polls, first)));
            task.call("commit", commit, answer);
            first += polls;
        }
        task.close();
    }
}
