package hostile;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.connect.storage.OffsetStorageReader;

/** What the offset reader of a context answers, as texts: each value with its class. */
final class ReadOffsets {
    private ReadOffsets() { }

    static Map<String, String> of(OffsetStorageReader reader) {
        Map<String, String> seen = new LinkedHashMap<>();
        Map<String, Object> known = Map.of("counter", "c");
        Map<String, Object> unknown = Map.of("counter", "nobody's");
        seen.put("known", text(reader.offset(known)));
        seen.put("unknown", text(reader.offset(unknown)));
        seen.put("null", text(reader.offset(null)));
        Map<Map<String, Object>, Map<String, Object>> several = reader.offsets(List.of(unknown, known));
        seen.put("several", several.size() + " " + text(several.get(known)) + " " + text(several.get(unknown)));
        seen.put("none", "" + reader.offsets(Collections.<Map<String, Object>>emptyList()));
        try {
            seen.put("nested", text(reader.offset(Map.of("counter", List.of("c")))));
        } catch (RuntimeException refused) {
            seen.put("nested", refused.toString());
        }
        return seen;
    }

    private static String text(Map<String, Object> offset) {
        if (offset == null) return "null";
        Map<String, String> texts = new TreeMap<>();
        offset.forEach((name, value) -> texts.put(name, value == null ? "null" : value + " " + value.getClass().getSimpleName()));
        return texts.toString();
    }
}
