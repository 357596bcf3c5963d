// The plugins' fields: their table, their parsing, their serialisation. Host code only, no CUDA and no TensorRT.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace surgeon
{

constexpr int kMostPads = 16; // two an axis, eight axes

enum class Kind : int32_t
{
#define PLUGIN(name, version, fewest, most) k##name,
#define FIELD(plugin, name, type, value)
#define CHOICE(plugin, field, value)
#include "../fields.def"
#undef PLUGIN
#undef FIELD
#undef CHOICE
    kCount,
};

enum class FieldType
{
    INT,
    FLOAT,
    STRING,
    INTS,
};

// One flat value for every plugin; a plugin uses the members that its FIELD lines name.
struct Attributes
{
    int32_t axis = 0;
    float epsilon = 0.f;
    int32_t mode = 0; // index of the CHOICE
    float slope = 1.f;
    float alpha = 0.f;
    int32_t pads_count = 0;
    int32_t pads[kMostPads] = {};
    int32_t inputs = 0; // of the node; no field: TensorRT 8's enqueue() is not told
};

struct FieldInfo
{
    char const* name;
    FieldType type;
    bool required;
    char const* text;    // the default as it stands in the table
    void* (*member)(Attributes&);
    std::vector<std::string> choices;
};

struct PluginInfo
{
    char const* name;
    char const* version;
    int fewest_inputs, most_inputs;
    std::vector<FieldInfo> fields;
};

constexpr char const* kNamespace = "surgeon";

inline PluginInfo const& plugin_info(Kind kind)
{
    static std::vector<PluginInfo> const table = [] {
        std::vector<PluginInfo> t;
        constexpr char const* REQUIRED_TEXT = "REQUIRED";
#define PLUGIN(name, version, fewest, most) t.push_back(PluginInfo{#name, version, fewest, most, {}});
#define FIELD(plugin, field, type, value)                                                                              \
    t.back().fields.push_back(FieldInfo{#field, FieldType::type, std::strcmp(#value, REQUIRED_TEXT) == 0, #value,      \
        [](Attributes & a) -> void* { return &a.field; }, {}});
#define CHOICE(plugin, field, value) t.back().fields.back().choices.push_back(#value);
#include "../fields.def"
#undef PLUGIN
#undef FIELD
#undef CHOICE
        return t;
    }();
    return table[static_cast<size_t>(kind)];
}

// A field as a caller passes it, whatever the TensorRT version calls its types.
struct GivenField
{
    enum class Type
    {
        kFloat32,
        kFloat64,
        kInt32,
        kInt64,
        kChar,
        kOther,
    };
    std::string name;
    Type type;
    void const* data;
    int64_t length; // elements
};

// Either attributes, or a sentence that says what is wrong with them.
struct Parsed
{
    Attributes attributes;
    std::string error; // empty when good
};

inline bool read_number(GivenField const& f, int64_t i, double& out)
{
    switch (f.type)
    {
    case GivenField::Type::kFloat32: out = static_cast<float const*>(f.data)[i]; return true;
    case GivenField::Type::kFloat64: out = static_cast<double const*>(f.data)[i]; return true;
    case GivenField::Type::kInt32: out = static_cast<int32_t const*>(f.data)[i]; return true;
    case GivenField::Type::kInt64: out = double(static_cast<int64_t const*>(f.data)[i]); return true;
    default: return false;
    }
}

inline bool is_int32(double v)
{
    return v >= -2147483648.0 && v <= 2147483647.0 && double(int32_t(v)) == v;
}

inline std::string set_string(FieldInfo const& info, std::string const& value, void* member)
{
    for (size_t i = 0; i < info.choices.size(); ++i)
        if (info.choices[i] == value)
            return *static_cast<int32_t*>(member) = int32_t(i), "";
    std::string all;
    for (auto const& c : info.choices)
        all += (all.empty() ? "" : ", ") + c;
    return "field '" + std::string(info.name) + "' is '" + value + "', not one of " + all;
}

inline std::string set_default(FieldInfo const& info, Attributes& a)
{
    void* const member = info.member(a);
    std::string const text = info.text;
    switch (info.type)
    {
    case FieldType::INT: *static_cast<int32_t*>(member) = std::stoi(text); return "";
    case FieldType::FLOAT: *static_cast<float*>(member) = std::stof(text); return "";
    case FieldType::STRING: return set_string(info, text.substr(1, text.size() - 2), member);
    case FieldType::INTS: return "field '" + std::string(info.name) + "' has no usable default";
    }
    return "";
}

inline std::string set_given(FieldInfo const& info, GivenField const& f, Attributes& a)
{
    std::string const where = "field '" + std::string(info.name) + "' ";
    void* const member = info.member(a);
    if (f.data == nullptr || f.length < 1)
        return where + "is empty";
    if (info.type == FieldType::STRING)
    {
        if (f.type != GivenField::Type::kChar)
            return where + "must be a string";
        std::string value(static_cast<char const*>(f.data), size_t(f.length)); // with or without its NUL
        return set_string(info, value.substr(0, value.find('\0')), member);
    }
    double number = 0;
    if (!read_number(f, 0, number))
        return where + "must be a number";
    if (info.type == FieldType::FLOAT)
        return f.length == 1 ? (*static_cast<float*>(member) = float(number), "") : where + "must be one number";
    if (info.type == FieldType::INT)
    {
        if (f.length != 1 || !is_int32(number))
            return where + "must be one 32-bit integer";
        return *static_cast<int32_t*>(member) = int32_t(number), "";
    }
    if (f.length % 2 != 0 || f.length > kMostPads)
        return where + "must have two entries an axis, for at most " + std::to_string(kMostPads / 2) + " axes";
    a.pads_count = int32_t(f.length);
    for (int64_t i = 0; i < f.length; ++i)
    {
        if (!read_number(f, i, number) || !is_int32(number))
            return where + "must hold 32-bit integers";
        static_cast<int32_t*>(member)[i] = int32_t(number);
    }
    return "";
}

// Fields that the table does not name are ignored: a parser passes plugin_version and plugin_namespace along.
inline Parsed parse(Kind kind, std::vector<GivenField> const& given)
{
    Parsed result;
    for (FieldInfo const& info : plugin_info(kind).fields)
    {
        GivenField const* found = nullptr;
        for (GivenField const& f : given)
            if (f.name == info.name)
                found = &f;
        if (found == nullptr && info.required)
            result.error = "field '" + std::string(info.name) + "' is missing";
        else
            result.error = found ? set_given(info, *found, result.attributes) : set_default(info, result.attributes);
        if (!result.error.empty())
            return result;
    }
    return result;
}

// ---------------------------------------------------------------------------------------------- serialisation
//
// Little-endian, as every machine that runs CUDA: magic "SRGN", format version, kind, payload size, payload, FNV-1a of
// all that precedes. A blob that is too short, too long, of another plugin or format, or damaged, is refused.

constexpr uint32_t kMagic = 0x4e475253;
constexpr uint32_t kFormat = 1;

inline uint32_t fnv1a(unsigned char const* p, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; ++i)
        h = (h ^ p[i]) * 16777619u;
    return h;
}

struct Header
{
    uint32_t magic, format, kind, size;
};

constexpr size_t kSerializedSize = sizeof(Header) + sizeof(Attributes) + sizeof(uint32_t);

inline void serialize(Kind kind, Attributes const& a, void* buffer)
{
    Header const header{kMagic, kFormat, uint32_t(kind), uint32_t(sizeof(Attributes))};
    auto* const p = static_cast<unsigned char*>(buffer);
    std::memcpy(p, &header, sizeof header);
    std::memcpy(p + sizeof header, &a, sizeof a);
    uint32_t const sum = fnv1a(p, sizeof header + sizeof a);
    std::memcpy(p + sizeof header + sizeof a, &sum, sizeof sum);
}

inline Parsed deserialize(Kind kind, void const* data, size_t length)
{
    Parsed result;
    if (data == nullptr || length != kSerializedSize)
    {
        result.error = "the serialised plugin has " + std::to_string(data ? length : 0) + " bytes, "
            + std::to_string(kSerializedSize) + " expected";
        return result;
    }
    auto const* const p = static_cast<unsigned char const*>(data);
    Header header;
    uint32_t sum;
    std::memcpy(&header, p, sizeof header);
    std::memcpy(&sum, p + sizeof header + sizeof(Attributes), sizeof sum);
    if (header.magic != kMagic)
        result.error = "the serialised data is not a surgeon plugin's";
    else if (header.format != kFormat || header.size != sizeof(Attributes))
        result.error = "the plugin was serialised in format " + std::to_string(header.format) + ", this library reads "
            + std::to_string(kFormat) + ": build the engine again";
    else if (header.kind != uint32_t(kind))
        result.error = "the serialised data is another plugin's";
    else if (sum != fnv1a(p, sizeof header + sizeof(Attributes)))
        result.error = "the serialised plugin is damaged (its checksum differs)";
    if (!result.error.empty())
        return result;
    std::memcpy(&result.attributes, p + sizeof header, sizeof(Attributes));
    Attributes const& a = result.attributes; // an honest checksum over nonsense is still refused
    for (FieldInfo const& info : plugin_info(kind).fields)
        if (info.type == FieldType::STRING && (a.mode < 0 || size_t(a.mode) >= info.choices.size()))
            result.error = "the serialised mode is unknown";
    if (a.pads_count < 0 || a.pads_count > kMostPads || a.pads_count % 2 != 0)
        result.error = "the serialised pads are malformed";
    return result;
}

} // namespace surgeon
