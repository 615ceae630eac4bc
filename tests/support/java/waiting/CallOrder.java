package fencepost.host;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Prints the calls of a task, whose class is the argument: a worker polls it, commits the records, and polls it again. A
 * transform drops the second of three records.
 */
public final class CallOrder {
    private static final String DROP = "\"transforms\": [{\"jars\": [], \"class\": \"fencepost.host.CallOrder$Drop\", \"alias\": \"d\", \"properties\": {}}]";

    public static void main(String[] args) throws Exception {
        String request = OpenTransaction.REQUEST.formatted(args[0]).replace("\"transforms\": []", DROP);
        TaskSession task = new TaskSession(Wire.JSON.readTree(request));
        ObjectNode answer = Wire.JSON.createObjectNode();
        task.call("start", answer, answer);
        System.out.println("commits " + answer.get("commits"));
        polled(task);
        // Two records were written.
        String written = "{\"topics\": [\"rows\"], \"count\": [2], \"topic\": [0], \"partition\": [0], \"offset\": [7], \"timestamp\": [1]}";
        ObjectNode commit = Wire.JSON.createObjectNode().put("batch", 1L);
        commit.set("written", Wire.JSON.readTree(written));
        task.call("commit", commit, answer);
        polled(task);
        task.close();
    }

    private static void polled(TaskSession task) throws Exception {
        ObjectNode poll = Wire.JSON.createObjectNode().put("ms", 1000);
        while (task.call("poll", poll, poll) == null) { }
    }

    /** Drops records with the value `drop`. */
    public static final class Drop implements Transformation<SourceRecord> {
        @Override
        public SourceRecord apply(SourceRecord record) {
            return record.value().equals("drop") ? null : record;
        }

        @Override
        public ConfigDef config() {
            return new ConfigDef();
        }

        @Override
        public void configure(Map<String, ?> properties) { }

        @Override
        public void close() { }
    }

    /** Does not look at commits. */
    public static class Polled extends SourceTask {
        private int polls;

        @Override
        public void start(Map<String, String> properties) { }

        @Override
        public List<SourceRecord> poll() {
            System.out.println("poll " + ++polls);
            return List.of(record("keep"), record("drop"), record("keep"));
        }

        private static SourceRecord record(String value) {
            return new SourceRecord(Map.of(), Map.of("at", 1), "rows", Schema.STRING_SCHEMA, value);
        }

        @Override
        public void stop() { }

        @Override
        public String version() {
            return "0";
        }
    }

    /** Looks at commits alone. */
    public static final class OfCommits extends Polled {
        @Override
        public void commit() {
            System.out.println("commit");
        }
    }

    /** Has the older of the methods for committed records, which Kafka Connect 4 does not call. */
    public static final class Older extends Polled {
        public void commitRecord(SourceRecord record) {
            System.out.println(record.value());
        }
    }

    /** Looks at both. */
    public static class OfBoth extends Polled {
        @Override
        public void commitRecord(SourceRecord record, RecordMetadata place) {
            System.out.println(record.value() + " at " + (place == null ? null : place.offset()));
        }

        @Override
        public void commit() {
            System.out.println("commit");
        }
    }
}
