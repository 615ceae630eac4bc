package fencepost.host;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/** The converters of a connector: from its records to bytes, in columns. */
final class RecordPipeline {
    private final Converter key;
    private final Converter value;
    private final HeaderConverter header;

    RecordPipeline(PluginLoader loader, Map<String, String> properties) throws Exception {
        key = converter(loader, properties, "key.converter", true);
        value = converter(loader, properties, "value.converter", false);
        header = loader.create(properties.get("header.converter"), HeaderConverter.class);
        Map<String, String> own = Wire.below(properties, "header.converter.");
        own.put("converter.type", "header");
        header.configure(own);
    }

    private static Converter converter(PluginLoader loader, Map<String, String> properties, String role, boolean isKey) throws Exception {
        Converter converter = loader.create(properties.get(role), Converter.class);
        converter.configure(Wire.below(properties, role + "."), isKey);
        return converter;
    }

    /** Polled records as columns: several where the task asked to end a transaction after a record. */
    List<RecordColumns> columns(List<SourceRecord> records, Transactions transactions) {
        List<RecordColumns> all = new ArrayList<>();
        RecordColumns columns = new RecordColumns();
        all.add(columns);
        for (SourceRecord record : records) {
            add(columns, record);
            columns.keep(record, true);
            String asked = transactions == null ? null : transactions.taken(record);
            if (asked != null) {
                columns.boundary = asked;
                columns = new RecordColumns();
                all.add(columns);
            }
        }
        String asked = transactions == null ? null : transactions.taken(null);
        if (columns.isEmpty() && asked == null) all.remove(columns);
        columns.boundary = asked;
        all.forEach(RecordColumns::complete);
        return all;
    }

    private void add(RecordColumns columns, SourceRecord record) {
        String topic = record.topic();
        if (topic == null) throw new DataException("The connector returned a record without a topic, at " + record.sourceOffset());
        if (record.sourcePartition() == null)
            throw new DataException("The connector returned a record without a source partition, for the topic " + topic);
        RecordHeaders headers = new RecordHeaders();  // Converters may add some, such as the number of a schema.
        if (record.headers() != null)
            for (Header one : record.headers())
                headers.add(one.key(), header.fromConnectHeader(topic, one.key(), one.schema(), one.value()));
        byte[] keyBytes = key.fromConnectData(topic, headers, record.keySchema(), record.key());
        byte[] valueBytes = value.fromConnectData(topic, headers, record.valueSchema(), record.value());
        for (org.apache.kafka.common.header.Header one : headers)
            columns.addHeader(one.key().getBytes(StandardCharsets.UTF_8), one.value());
        columns.add(topic, record.kafkaPartition(), record.timestamp(), keyBytes, valueBytes);
    }

    void close() throws Exception {
        key.close();
        value.close();
        header.close();
    }
}
