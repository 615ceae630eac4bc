package fencepost.host;

import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;

/** How values of a schema are written as JSON. */
interface JsonForm {
    /** Write a value. An exception of any kind says that it is not certain to be written as by JsonConverter. */
    void write(Object value, JsonGenerator json) throws IOException;
}
