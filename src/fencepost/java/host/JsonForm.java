package fencepost.host;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;

/** Writes the values of a schema as JSON. */
interface JsonForm {
    /** Writes a value. Any exception means that JsonConverter might write other bytes. */
    void write(Object value, JsonGenerator json) throws IOException;
}
