package io.debezium.connector.common;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * Has the name of Debezium's class, which the host knows by it. Its polls return one record each, of two databases in turn,
 * with a value of its own. It prints the calls of `commitRecord`.
 */
public final class BaseSourceTask extends SourceTask {
    private long next;

    @Override
    public void start(Map<String, String> properties) { }

    @Override
    public List<SourceRecord> poll() {
        Map<String, String> database = Map.of("database", next % 2 == 0 ? "a" : "b");
        return List.of(new SourceRecord(database, Map.of("at", next), "rows", Schema.STRING_SCHEMA, next++ + "-".repeat(50_000)));
    }

    @Override
    public void commitRecord(SourceRecord record, RecordMetadata place) {
        System.out.println(record.sourcePartition().get("database") + " " + record.sourceOffset().get("at"));
    }

    @Override
    public void stop() { }

    @Override
    public String version() {
        return "0";
    }
}
