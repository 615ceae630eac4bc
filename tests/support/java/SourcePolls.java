package fencepost.host;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Shows where SourceTransactions ends transactions: each line of the input is a poll of records, each the name of its source
 * partition with + for BEGIN, - for END, or nothing. The output has a bar at each end.
 */
public final class SourcePolls {
    private static final Schema METADATA = SchemaBuilder.struct().name("io.debezium.connector.common.TransactionMetadataValue")
        .field("status", Schema.STRING_SCHEMA).build();

    public static void main(String[] args) {
        Boundaries boundaries = new SourceTransactions();
        for (Scanner polls = new Scanner(System.in); polls.hasNextLine(); ) {
            List<SourceRecord> records = new ArrayList<>();
            String[] names = polls.nextLine().split(" ");
            for (String name : names) records.add(record(name));
            boundaries.polled(records);
            StringBuilder shown = new StringBuilder();
            for (int i = 0; i < names.length; i++) {
                shown.append(names[i]).append(' ');
                if (boundaries.after(records.get(i)) != null) shown.append("| ");
            }
            if (boundaries.atEnd() != null) shown.append("|");
            System.out.println(shown.toString().strip());
        }
    }

    private static SourceRecord record(String name) {
        Map<String, String> partition = Map.of("database", name.substring(0, 1));
        if (name.length() == 1) return new SourceRecord(partition, Map.of(), "rows", Schema.STRING_SCHEMA, "row");
        Struct value = new Struct(METADATA).put("status", name.endsWith("+") ? "BEGIN" : "END");
        return new SourceRecord(partition, Map.of(), "transaction", METADATA, value);
    }
}
