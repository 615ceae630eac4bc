package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.source.SourceConnectorContext;
import org.apache.kafka.connect.storage.OffsetStorageReader;
import org.slf4j.MDC;

/** A connector, from its start to its stop. */
final class ConnectorSession implements Session, SourceConnectorContext {
    private final Events events = new Events();
    private final Offsets offsets = new Offsets(events);
    private final OwnMetrics metrics;
    private final PluginLoader loader;
    private final SourceConnector connector;
    private final String name;

    ConnectorSession(JsonNode request) throws Exception {
        name = request.get("name").asText();
        MDC.put("task", name + "|");
        loader = PluginLoader.of(request);
        Thread.currentThread().setContextClassLoader(loader);
        connector = loader.create(request.get("class").asText(), SourceConnector.class);
        // Created last, so that no metrics have to be closed if an earlier step fails.
        metrics = new OwnMetrics(name, null);
    }

    @Override
    public RecordColumns call(String operation, JsonNode request, ObjectNode answer) {
        MDC.put("task", name + "|");
        Thread.currentThread().setContextClassLoader(loader);
        switch (operation) {
            case "start" -> {
                Map<String, String> config = Wire.properties(request.get("config"));
                connector.initialize(this);
                connector.start(config);
            }
            case "taskConfigs" -> {
                List<Map<String, String>> configs = connector.taskConfigs(request.get("max").asInt());
                if (configs == null || configs.stream().anyMatch(Objects::isNull))
                    throw new ConnectException("taskConfigs() returned " + configs + ", and no tasks can be made of null: it has to return a "
                        + "list with a map for each task, or an empty list for none. This is a bug of the connector");
                answer.put("task", connector.taskClass().getName());
                answer.set("configs", Wire.JSON.valueToTree(configs));
            }
            case "metrics" -> metrics.describe(answer);
            case "stop" -> connector.stop();
            default -> throw new IllegalArgumentException(operation);
        }
        return null;
    }

    @Override
    public Events events() {
        return events;
    }

    @Override
    public void close() {
        events.close();
        metrics.close();
    }

    @Override
    public void requestTaskReconfiguration() {
        events.ask(Wire.JSON.createObjectNode().put("event", "reconfigure"));
    }

    @Override
    public void raiseError(Exception error) {
        ObjectNode event = Wire.JSON.createObjectNode().put("event", "error");
        Wire.describe(error, event);
        events.ask(event);
    }

    @Override
    public OffsetStorageReader offsetStorageReader() {
        return offsets;
    }

    @Override
    public PluginMetrics pluginMetrics() {
        return metrics.of();
    }
}
