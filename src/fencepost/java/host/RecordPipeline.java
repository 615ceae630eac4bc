package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The transforms and converters of a connector: from its records to bytes, in columns. */
final class RecordPipeline {
    private static final Logger LOG = LoggerFactory.getLogger(RecordPipeline.class);

    /** All plugins, the last one of the pipeline first. */
    private final Deque<Part<?>> made = new ArrayDeque<>();
    private final List<Step> steps = new ArrayList<>();
    private final Part<Converter> key;
    private final Part<Converter> value;
    private final Part<HeaderConverter> header;
    private final Conversion keys;
    private final Conversion values;
    private final StageErrors errors;
    private boolean stopped;

    /** Converts data to bytes with a converter. */
    private interface Conversion {
        byte[] of(String topic, RecordHeaders headers, Schema schema, Object value);
    }

    RecordPipeline(JsonNode request, OwnMetrics metrics) throws Exception {
        try {
            JsonNode converters = request.get("converters");
            key = converter(converters.get("key.converter"), true, metrics);
            value = converter(converters.get("value.converter"), false, metrics);
            keys = conversion(key.object, converters.get("key.converter"));
            values = conversion(value.object, converters.get("value.converter"));
            header = headerConverter(converters.get("header.converter"), metrics);
            for (JsonNode step : request.get("transforms")) steps.add(new Step(step, metrics, made));
            errors = new StageErrors(request.get("errors"));
        } catch (Throwable error) {
            close();
            throw error;
        }
    }

    private Part<HeaderConverter> headerConverter(JsonNode request, OwnMetrics metrics) throws Exception {
        Part<HeaderConverter> converter = Part.of(request, HeaderConverter.class, made);
        converter.run(() -> converter.object.configure(Part.properties(request)));
        converter.run(() -> metrics.offer(converter.object, "converter", "header"));
        return converter;
    }

    private Part<Converter> converter(JsonNode request, boolean isKey, OwnMetrics metrics) throws Exception {
        Part<Converter> converter = Part.of(request, Converter.class, made);
        converter.run(() -> converter.object.configure(Part.properties(request), isKey));
        converter.run(() -> metrics.offer(converter.object, "converter", isKey ? "key" : "value"));
        return converter;
    }

    private static Conversion conversion(Converter converter, JsonNode request) {
        // Classes are compared, not names: a plugin's folder may contain another JsonConverter that writes other bytes.
        return converter.getClass() == JsonConverter.class
            ? new StreamingJson((JsonConverter) converter, Part.properties(request))::fromConnectData : converter::fromConnectData;
    }

    /**
     * Returns polled records as columns: several objects if transactions end between the records. A refused record that
     * may not be skipped is returned alone, because no other record of the poll may be written. If the task stops while
     * a stage is retried, no records are returned, now or later: later offsets would skip the records of this poll.
     */
    List<RecordColumns> columns(List<SourceRecord> records, Boundaries boundaries) {
        if (stopped) return List.of();
        boundaries.polled(records);
        List<RecordColumns> all = new ArrayList<>();
        RecordColumns columns = new RecordColumns();
        all.add(columns);
        for (SourceRecord record : records) {
            // Kafka Connect skips null records as well.
            if (record == null) continue;
            try {
                columns.keep(record, add(columns, record));
            } catch (StageErrors.Refused refused) {
                if (!errors.tolerates) return List.of(RecordColumns.of(refused, record, errors));
                columns.refuse(refused, record, errors);
                columns.keep(record, false);
            } catch (StageErrors.Stopped ended) {
                stopped = true;
                return List.of();
            }
            columns.retries += errors.takeRetries();
            String asked = boundaries.after(record);
            if (asked != null) {
                columns.boundary = asked;
                columns = new RecordColumns();
                all.add(columns);
            }
        }
        String asked = boundaries.atEnd();
        if (columns.isEmpty() && asked == null) all.remove(columns);
        columns.boundary = asked;
        all.forEach(RecordColumns::complete);
        return all;
    }

    /** Adds a record to the columns. Returns false if a transform has dropped it. */
    private boolean add(RecordColumns columns, SourceRecord polled) throws StageErrors.Refused {
        SourceRecord changed = polled;
        for (Step step : steps) {
            SourceRecord given = changed;
            changed = errors.passed("TRANSFORMATION", step.type(), () -> step.apply(given));
            if (changed == null) return false;
        }
        SourceRecord record = changed;
        String topic = record.topic();
        if (topic == null) throw new DataException("The connector returned a record without a topic, at " + polled.sourceOffset());
        Integer partition = record.kafkaPartition();
        if (partition != null && partition < 0)
            throw new DataException("A record for topic " + topic + " has the partition " + partition + ", at " + polled.sourceOffset() + ": a partition is null, for any, or 0 and more");
        // Converters may add headers, for example with the number of a schema.
        RecordHeaders headers = errors.passed("HEADER_CONVERTER", header.object.getClass(), () -> header.call(() -> headers(topic, record)));
        byte[] keyBytes = errors.passed("KEY_CONVERTER", key.object.getClass(),
            () -> key.call(() -> keys.of(topic, headers, record.keySchema(), record.key())));
        byte[] valueBytes = errors.passed("VALUE_CONVERTER", value.object.getClass(),
            () -> value.call(() -> values.of(topic, headers, record.valueSchema(), record.value())));
        for (org.apache.kafka.common.header.Header one : headers)
            columns.addHeader(one.key().getBytes(StandardCharsets.UTF_8), one.value());
        columns.add(topic, partition, record.timestamp(), keyBytes, valueBytes);
        return true;
    }

    private RecordHeaders headers(String topic, SourceRecord record) {
        RecordHeaders headers = new RecordHeaders();
        if (record.headers() != null)
            for (Header one : record.headers())
                headers.add(one.key(), header.object.fromConnectHeader(topic, one.key(), one.schema(), one.value()));
        return headers;
    }

    /** Ends the pauses between retries. May be called on any thread. */
    void stop() {
        errors.stop();
    }

    /** Closes all plugins. Errors are logged. */
    void close() {
        for (Part<?> part : made) {
            try {
                part.close();
            } catch (Throwable error) {
                LOG.warn("A plugin of the pipeline could not be closed", error);
            }
        }
    }
}
