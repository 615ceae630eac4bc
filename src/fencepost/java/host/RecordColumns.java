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

/** Records as the buffers of Arrow arrays, with the last offset of each source partition. */
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
    /**
     * The last record of each source partition, in the order of the records. The order decides which offset is
     * committed if partitions that differ in Java, such as 1 and 1L, are the same in JSON.
     */
    private final Map<Map<String, ?>, SourceRecord> latest = new LinkedHashMap<>(16, 0.75f, true);
    private final ArrayNode encoded = Wire.JSON.createArrayNode();
    private final ArrayNode refused = Wire.JSON.createArrayNode();
    private boolean hasPartitions;
    private boolean hasTimestamps;

    final List<SourceRecord> polled = new ArrayList<>();
    /** Says for each polled record whether it is among the rows. */
    final BitSet written = new BitSet();
    /** The task's request after these records: a commit or an abort, null for neither. */
    String boundary;
    /** How often stages were retried. */
    int retries;
    long number;
    private int count;

    RecordColumns() {
        headerEnds.room(4).putInt(0);
    }

    /** Returns an object without rows, but with a refused record, for the case that the record may not be skipped. */
    static RecordColumns of(StageErrors.Refused refused, SourceRecord record, StageErrors errors) {
        RecordColumns columns = new RecordColumns();
        columns.refuse(refused, record, errors);
        columns.retries = errors.takeRetries();
        return columns;
    }

    boolean isEmpty() {
        return polled.isEmpty();
    }

    /** Adds a header to the record that will be added next. */
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

    /** Adds a record that a stage refused, as it was polled, in the forms that the worker needs. */
    void refuse(StageErrors.Refused why, SourceRecord record, StageErrors errors) {
        ObjectNode one = refused.addObject().put("stage", why.stage).put("plugin", why.plugin.getName()).put("topic", record.topic());
        Wire.describe(why.reason, one);
        one.put("exception", why.reason.getClass().getName()).put("message", Wire.said(why.reason, why.reason::getMessage));
        one.put("partition", Offsets.encoded(record.sourcePartition())).put("offset", Offsets.encoded(record.sourceOffset()));
        if (errors.letters) one.put("key", PlainBytes.of(record.keySchema(), record.key())).put("value", PlainBytes.of(record.valueSchema(), record.value()));
        if (errors.contents) one.put("content", record.toString());
    }

    /** Notes a polled record. Its offset counts even if the record is not written. */
    void keep(SourceRecord record, boolean isWritten) {
        written.set(polled.size(), isWritten);
        polled.add(record);
        count++;
        latest.put(record.sourcePartition(), record);
    }

    /** Encodes the offsets, on the task's thread, after all records were added. Throws as `Offsets.encoded`. */
    void complete() {
        latest.forEach((place, record) -> encoded.addArray().add(Offsets.encoded(place)).add(Offsets.encoded(record.sourceOffset())));
    }

    /** Returns the last polled record of each source partition. */
    Map<Map<String, ?>, SourceRecord> latest() {
        return latest;
    }

    /** Returns the part of these records that is needed until their commit. */
    Uncommitted.Batch waiting() {
        return new Uncommitted.Batch(number, polled, written, keys.sizes(), values.sizes());
    }

    /** Describes the buffers in an answer, and appends them to `parts`, each padded. */
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
