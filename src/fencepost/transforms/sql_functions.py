"""The functions of Spark that expressions may call. Expressions come over the network, so all others are refused.

These kinds of functions are not allowed:

- functions that run code or read files: reflect, java_method, xpath, and others for XML, Avro and Protobuf
- functions that reveal data of the worker: current_user, version, input_file_name
- functions that need other rows: aggregates, windows
- functions that make several rows of one: explode

https://spark.apache.org/docs/latest/api/sql/
"""

from __future__ import annotations

from typing import Final

_DATES: Final = """
add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd
datediff datepart day dayname dayofmonth dayofweek dayofyear extract from_unixtime from_utc_timestamp hour last_day
make_date make_dt_interval make_interval make_timestamp make_timestamp_ltz make_timestamp_ntz make_ym_interval minute
month monthname months_between next_day quarter second timestamp_micros timestamp_millis timestamp_seconds to_date
to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp to_utc_timestamp trunc try_make_interval
try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_timestamp unix_date unix_micros
unix_millis unix_seconds unix_timestamp weekday weekofyear year
"""
_NUMBERS: Final = """
abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil ceiling conv cos cosh cot csc degrees
e exp expm1 factorial floor getbit greatest hex hypot least ln log log10 log1p log2 mod negative pi pmod positive pow
power radians rint round sec shiftleft shiftright shiftrightunsigned sign signum sin sinh sqrt tan tanh try_add
try_divide try_mod try_multiply try_subtract unhex width_bucket
"""
_TEXTS: Final = """
ascii base64 bit_length btrim char char_length character_length chr concat_ws contains decode elt encode endswith
find_in_set format_number format_string initcap instr is_valid_utf8 lcase left len length levenshtein locate lower lpad
ltrim luhn_check make_valid_utf8 mask octet_length overlay position printf quote regexp_count regexp_extract
regexp_extract_all regexp_instr regexp_replace regexp_substr repeat replace right rpad rtrim sentences soundex space
split split_part startswith substr substring substring_index to_binary to_char to_number to_varchar translate trim
try_to_binary try_to_number try_validate_utf8 ucase unbase64 upper validate_utf8
parse_url try_parse_url try_url_decode url_decode url_encode
"""
_CONDITIONS: Final = """
between coalesce equal_null if ifnull ilike isnan isnotnull isnull like nanvl not nullif nullifzero nvl nvl2 regexp
regexp_like rlike when zeroifnull assert_true raise_error
"""
_TYPES: Final = "bigint binary boolean date decimal double float int smallint string timestamp tinyint typeof"
_HASHES: Final = "crc32 hash md5 sha sha1 sha2 xxhash64 aes_decrypt try_aes_decrypt hmac"
_STRUCTURES: Final = """
array array_append array_compact array_contains array_distinct array_except array_insert array_intersect array_join
array_max array_min array_position array_prepend array_remove array_repeat array_size array_union arrays_overlap
arrays_zip flatten get sequence slice sort_array cardinality concat element_at reverse size try_element_at
aggregate array_sort exists filter forall map_filter map_zip_with reduce transform transform_keys transform_values
zip_with map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys map_values str_to_map
named_struct struct from_json get_json_object json_array_length json_object_keys schema_of_json to_json from_csv
schema_of_csv to_csv
"""

ALLOWED: Final = frozenset(f"{_DATES} {_NUMBERS} {_TEXTS} {_CONDITIONS} {_TYPES} {_HASHES} {_STRUCTURES}".split())
"""Functions whose result depends only on their arguments."""

_NONDETERMINISTIC: Final = """
aes_encrypt curdate current_date current_timestamp localtimestamp now rand randn random
randstr shuffle uniform uuid
"""
NONDETERMINISTIC: Final = frozenset(_NONDETERMINISTIC.split())
"""Functions whose result is different each time. They are allowed only on request."""

NOW_WITHOUT_ARGUMENTS: Final = frozenset({"unix_timestamp", "to_unix_timestamp"})
"""Functions that return the current time if they have no argument."""

_NULL_OF_NULL: Final = """
array_append array_compact array_contains array_distinct array_except array_insert array_intersect array_join
array_max array_min array_position array_prepend array_remove array_size array_union arrays_overlap flatten get
slice sort_array cardinality element_at size try_element_at aggregate array_sort exists filter forall map_filter
map_zip_with reduce transform transform_keys transform_values zip_with map_concat map_contains_key map_entries
map_from_arrays map_from_entries map_keys map_values
"""
NULL_OF_NULL: Final = frozenset(_NULL_OF_NULL.split())
"""Functions whose first argument must be an array or a map, and whose result is null if this argument is null."""

_NODES: Final = """
Add Alias And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Concat CreateNamedStruct Divide EqualNullSafe
EqualTo GreaterThan GreaterThanOrEqual ILike In IntegralDivide IsNotNull IsNull LambdaFunction LessThan
LessThanOrEqual Like LikeAll LikeAny Literal MultiLikeBase Multiply NamePlaceholder$ Not NotLikeAll NotLikeAny Or
Overlay RLike Remainder ShiftLeft ShiftRight ShiftRightUnsigned StringLocate StringTrim StringTrimLeft
StringTrimRight Substring Subtract TimestampAdd TimestampDiff UnaryMinus UnaryPositive UnresolvedAttribute
UnresolvedExtractValue UnresolvedFunction UnresolvedNamedLambdaVariable UnresolvedStar
UnresolvedStarExceptOrReplace
"""
NODES: Final = frozenset(_NODES.split())
"""The classes of Spark's expressions that a parsed expression may contain.

Sub-queries, windows, parameters, computed names (IDENTIFIER) and all unknown classes are not allowed.
"""
