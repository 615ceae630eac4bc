package hostile;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;

/** Records with all kinds of source partitions and offsets that Kafka Connect stores. */
final class OddOffsets {
    private OddOffsets() { }

    static List<SourceRecord> records(String topic) {
        List<Map<String, Object>> odd = new ArrayList<>();
        odd.add(of("bytes", new byte[] {0, 1, -1}));
        odd.add(of("buffer", ByteBuffer.wrap(new byte[] {-5, 7})));
        odd.add(of("lone", "x\uD800", "pair", "\uD83D\uDE00"));
        odd.add(of("texts", "\u0001\"\\/\u00e9\u2028\t", "", ""));
        odd.add(of("float", 1.1f, "double", 4.9E-324, "large", 1.5e10, "most", Double.MAX_VALUE, "whole", 2.0, "zero", -0.0));
        odd.add(of("not", Double.NaN, "beyond", Float.NEGATIVE_INFINITY));
        odd.add(of("byte", (byte) -1, "short", (short) 2, "int", 3, "long", Long.MIN_VALUE));
        odd.add(of("true", true, "null", null));
        odd.add(of());
        List<SourceRecord> records = new ArrayList<>();
        for (Map<String, Object> one : odd) records.add(record(one, one, topic));
        records.add(record(null, of("n", 1L), topic));
        // Last, so that all are there when it is.
        records.add(record(of("last", true), of("n", 1L), topic));
        return records;
    }

    private static SourceRecord record(Map<String, Object> partition, Map<String, Object> offset, String topic) {
        return new SourceRecord(partition, offset, topic, null, Schema.STRING_SCHEMA, "k", Schema.STRING_SCHEMA, "v");
    }

    private static Map<String, Object> of(Object... pairs) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) map.put((String) pairs[i], pairs[i + 1]);
        return map;
    }
}
