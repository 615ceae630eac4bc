package fencepost.host;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.source.SourceTask;

/**
 * Its polls return one record each. All have the same value, so that they take no memory themselves, and every other one has
 * a key. It prints at a commit how many records there were, and how many of them had the right place.
 */
public final class PlacedTask extends SourceTask {
    private static final String VALUE = "-".repeat(50_000);
    private long next, committed, right;

    @Override
    public void start(Map<String, String> properties) { }

    @Override
    public List<SourceRecord> poll() {
        String key = next % 2 == 0 ? null : "key";
        Map<String, Long> at = Map.of("at", next++);
        return List.of(new SourceRecord(Map.of(), at, "rows", Schema.OPTIONAL_STRING_SCHEMA, key, Schema.STRING_SCHEMA, VALUE));
    }

    @Override
    public void commitRecord(SourceRecord record, RecordMetadata place) {
        boolean isAt = record.sourceOffset().get("at").equals(place.offset());
        boolean isSized = place.serializedKeySize() == (record.key() == null ? -1 : 3) && place.serializedValueSize() == VALUE.length();
        if (isAt && isSized) right++;
        committed++;
    }

    @Override
    public void commit() {
        System.out.println(committed + " " + right);
    }

    @Override
    public void stop() { }

    @Override
    public String version() {
        return "0";
    }
}
