package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Deque;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** A transform, and the predicate, if any, that decides to which records it is applied. */
final class Step {
    private final Part<Transformation<SourceRecord>> transform;
    private final Part<Predicate<SourceRecord>> predicate;
    private final boolean negate;

    @SuppressWarnings("unchecked")
    Step(JsonNode request, OwnMetrics metrics, Deque<Part<?>> made) throws Exception {
        transform = Part.of(request, Transformation.class, made);
        transform.run(() -> transform.object.configure(Part.properties(request)));
        transform.run(() -> metrics.offer(transform.object, "transformation", request.get("alias").asText()));
        JsonNode given = request.get("predicate");
        predicate = given == null ? null : Part.of(given, Predicate.class, made);
        if (predicate != null) {
            predicate.run(() -> predicate.object.configure(Part.properties(given)));
            predicate.run(() -> metrics.offer(predicate.object, "predicate", given.get("alias").asText()));
        }
        negate = request.path("negate").asBoolean();
    }

    Class<?> type() {
        return transform.object.getClass();
    }

    /** Returns the changed record; null to drop it. */
    SourceRecord apply(SourceRecord record) throws Exception {
        if (predicate != null && predicate.call(() -> predicate.object.test(record)) == negate) return record;
        return transform.call(() -> transform.object.apply(record));
    }
}
