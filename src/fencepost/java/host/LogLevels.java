package fencepost.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.LoggerConfig;

/** The levels of loggers that the worker requests. The empty name stands for the root logger. */
final class LogLevels {
    private static final Map<String, Level> BEFORE = new HashMap<>();

    private LogLevels() { }

    /**
     * Sets these levels. A logger whose level was requested earlier, but is not any more, gets its original level
     * again.
     */
    static synchronized void set(JsonNode wanted) {
        BEFORE.entrySet().removeIf(entry -> {
            if (wanted.has(entry.getKey())) return false;
            Configurator.setLevel(entry.getKey(), entry.getValue());
            return true;
        });
        wanted.properties().forEach(field -> {
            LoggerConfig config = LoggerContext.getContext(false).getConfiguration().getLoggers().get(field.getKey());
            if (!BEFORE.containsKey(field.getKey())) BEFORE.put(field.getKey(), config == null ? null : config.getLevel());
            Configurator.setLevel(field.getKey(), Level.valueOf(field.getValue().asText()));
        });
    }
}
