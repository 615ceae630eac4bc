package versioned;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** The version of the jar that the classes here were loaded from: its file `version`. */
final class Versions {
    private Versions() { }

    static String own() {
        try (InputStream file = Versions.class.getResourceAsStream("/version")) {
            return new String(file.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
