package fencepost.host;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.source.SourceRecord;

/** Records as the buffers of Arrow arrays, and the last offset of each of their source partitions. */
final class RecordColumns {
    private static final int ALIGNMENT = 8;

    private final Map<String, Integer> topics = new LinkedHashMap<>();
    private final BytesColumn keys = new BytesColumn();
    private final BytesColumn values = new BytesColumn();
    private final BytesColumn headerNames = new BytesColumn();
    private final BytesColumn headerValues = new BytesColumn();
    private final Column topic = new Column();
    private final Column partition = new Column();
    private final Column timestamps = new Column();
    private final Column headerEnds = new Column();
    /** In the order of the records: partitions that differ in Java, as 1 and 1L do, may be the same in JSON. */
    private final Map<Map<String, ?>, SourceRecord> latest = new LinkedHashMap<>(16, 0.75f, true);
    private final ArrayNode encoded = Wire.JSON.createArrayNode();
    private final ArrayNode refused = Wire.JSON.createArrayNode();
    private boolean hasPartitions;
    private boolean hasTimestamps;

    final List<SourceRecord> polled = new ArrayList<>();
    /** Which of the polled records are among the rows. */
    final BitSet written = new BitSet();
    /** What the task asked for after these records, null for nothing. */
    String boundary;
    /** How often stages were tried again. */
    int retries;
    long number;
    private int count;

    RecordColumns() {
        headerEnds.room(4).putInt(0);
    }

    /** No rows, but a refused record, which is not skipped. */
    static RecordColumns of(StageErrors.Refused refused, SourceRecord record, StageErrors errors) {
        RecordColumns columns = new RecordColumns();
        columns.refuse(refused, record, errors);
        columns.retries = errors.takeRetries();
        return columns;
    }

    boolean isEmpty() {
        return polled.isEmpty();
    }

    /** Add a header to the record that is added next. */
    void addHeader(byte[] name, byte[] value) {
        headerNames.add(name);
        headerValues.add(value);
    }

    void add(String name, Integer toPartition, Long timestamp, byte[] key, byte[] value) {
        Integer known = topics.get(name);
        if (known == null) topics.put(name, known = topics.size());
        topic.room(4).putInt(known);
        partition.room(4).putInt(toPartition == null ? -1 : toPartition);
        hasPartitions |= toPartition != null;
        timestamps.room(8).putLong(timestamp == null ? -1 : timestamp);
        hasTimestamps |= timestamp != null;
        headerEnds.room(4).putInt(headerNames.count());
        keys.add(key);
        values.add(value);
    }

    /** Add a record that a stage refused: as it was polled, in the forms that are needed. */
    void refuse(StageErrors.Refused why, SourceRecord record, StageErrors errors) {
        ObjectNode one = refused.addObject().put("stage", why.stage).put("plugin", why.plugin.getName()).put("topic", record.topic());
        Wire.describe(why.reason, one);
        one.put("exception", why.reason.getClass().getName()).put("message", Wire.said(why.reason, why.reason::getMessage));
        one.put("partition", Offsets.encoded(record.sourcePartition())).put("offset", Offsets.encoded(record.sourceOffset()));
        if (errors.letters) one.put("key", PlainBytes.of(record.keySchema(), record.key())).put("value", PlainBytes.of(record.valueSchema(), record.value()));
        if (errors.contents) one.put("content", record.toString());
    }

    /** The offset of a record counts also if it is not written. */
    void keep(SourceRecord record, boolean isWritten) {
        written.set(polled.size(), isWritten);
        polled.add(record);
        count++;
        latest.put(record.sourcePartition(), record);
    }

    /** Encode the offsets, on the task's thread, once all records are here. Raises as `Offsets.encoded`. */
    void complete() {
        latest.forEach((place, record) -> encoded.addArray().add(Offsets.encoded(place)).add(Offsets.encoded(record.sourceOffset())));
    }

    /** The last polled record of each source partition. */
    Map<Map<String, ?>, SourceRecord> latest() {
        return latest;
    }

    /** What a commit needs of these records. */
    Uncommitted.Batch waiting() {
        return new Uncommitted.Batch(number, polled, written, keys.sizes(), values.sizes());
    }

    /** Say in an answer what the buffers are, and append them, each padded. */
    void describe(ObjectNode answer, List<ByteBuffer> parts) {
        answer.put("batch", number).put("rows", values.count()).put("boundary", boundary);
        answer.set("topics", Wire.JSON.valueToTree(topics.keySet()));
        answer.set("offsets", encoded);
        answer.put("polled", count).put("retries", retries).set("refused", refused);
        ArrayNode names = answer.putArray("buffers");
        if (topics.size() > 1) append("topic", topic.filled(), names, parts);
        if (hasPartitions) append("partition", partition.filled(), names, parts);
        if (hasTimestamps) append("timestamp", timestamps.filled(), names, parts);
        if (keys.hasAny()) keys.append("key", names, parts);
        values.append("value", names, parts);
        if (headerNames.count() > 0) {
            append("headers", headerEnds.filled(), names, parts);
            headerNames.append("header.name", names, parts);
            headerValues.append("header.value", names, parts);
        }
    }

    static void append(String name, ByteBuffer buffer, ArrayNode names, List<ByteBuffer> parts) {
        names.addArray().add(name).add(buffer.remaining());
        int beyond = buffer.remaining() % ALIGNMENT;
        parts.add(buffer);
        if (beyond > 0) parts.add(ByteBuffer.allocate(ALIGNMENT - beyond));
    }
}
