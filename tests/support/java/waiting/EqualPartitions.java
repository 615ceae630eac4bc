package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.source.SourceRecord;

/** Prints the last offset of records whose source partitions differ in Java, and are the same in JSON. */
public final class EqualPartitions {
    public static void main(String[] args) {
        RecordColumns columns = new RecordColumns();
        long at = 0;
        for (Number number : List.<Number>of(1L, 1, 1L))
            columns.keep(new SourceRecord(Map.of("p", number), Map.of("at", ++at), "rows", Schema.STRING_SCHEMA, "v"), true);
        columns.complete();
        ObjectNode answer = Wire.JSON.createObjectNode();
        columns.describe(answer, new ArrayList<>());
        JsonNode offsets = answer.get("offsets");
        System.out.println(offsets.get(offsets.size() - 1));
    }
}
