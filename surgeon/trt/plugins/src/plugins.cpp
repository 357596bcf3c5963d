// The TensorRT side: one plugin and one creator class for every operator of fields.def, IPluginV2DynamicExt for
// TensorRT 8.2 to 9.x and IPluginV3 from 10. What they compute is in operators.h.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <NvInfer.h>

#include "operators.h"

namespace surgeon
{
namespace
{

using nvinfer1::DataType;
using nvinfer1::PluginField;
using nvinfer1::PluginFieldCollection;
using nvinfer1::PluginFieldType;
using nvinfer1::PluginTensorDesc;
using nvinfer1::TensorFormat;

void complain(Kind kind, std::string const& why)
{
    std::fprintf(stderr, "%s: %s\n", plugin_info(kind).name, why.c_str());
}

// --------------------------------------------------------------------------------------------- types and tensors

bool known_type(DataType t)
{
#if NV_TENSORRT_MAJOR >= 10
    if (t == DataType::kBF16)
        return true;
#endif
    return t == DataType::kFLOAT || t == DataType::kHALF;
}

Type type_of(DataType t)
{
#if NV_TENSORRT_MAJOR >= 10
    if (t == DataType::kBF16)
        return Type::kBfloat16;
#endif
    return t == DataType::kHALF ? Type::kHalf : Type::kFloat;
}

Tensor tensor(PluginTensorDesc const& desc, void const* data)
{
    Tensor t;
    t.data = const_cast<void*>(data);
    t.type = type_of(desc.type);
    t.layout = desc.format == TensorFormat::kHWC8 ? Layout::kChannelsLast8 : Layout::kLinear;
    t.rank = desc.dims.nbDims;
    for (int i = 0; i < t.rank && i < kMaxRank; ++i)
        t.dims[i] = desc.dims.d[i];
    return t;
}

std::string check_descriptions(Kind kind, Attributes const& a, PluginTensorDesc const* in, int count)
{
    std::vector<Tensor> inputs;
    for (int i = 0; i < count; ++i)
        inputs.push_back(tensor(in[i], nullptr));
    return check(kind, a, inputs.data(), count);
}

// The data input and the output have one type and format; small inputs are linear, fp32 or of that type.
bool supports(Kind kind, Attributes const& a, int pos, PluginTensorDesc const& x, PluginTensorDesc const& here,
    int inputs)
{
    if (!known_type(here.type))
        return false;
    if (pos == 0)
    {
        if (here.format == TensorFormat::kLINEAR)
            return true;
        int64_t dims[kMaxRank] = {};
        for (int i = 0; i < here.dims.nbDims && i < kMaxRank; ++i)
            dims[i] = here.dims.d[i];
        return here.format == TensorFormat::kHWC8 && here.type != DataType::kFLOAT
            && takes_channels_last(kind, a, here.dims.nbDims, dims);
    }
    if (pos < inputs)
        return here.format == TensorFormat::kLINEAR && (here.type == DataType::kFLOAT || here.type == x.type);
    return here.type == x.type && here.format == x.format;
}

// An execution context's tickets: no two launches of a context overlap. Where there is no memory, run() does without.
class Tickets
{
public:
    Tickets() = default;
    Tickets(Tickets const&) = delete;
    Tickets& operator=(Tickets const&) = delete;
    ~Tickets() { release(); }

    void make(Kind kind)
    {
        size_t const bytes = tickets_bytes(kind);
        if (bytes == 0 || mCounter != nullptr)
            return;
        if (cudaMalloc(reinterpret_cast<void**>(&mCounter), bytes) == cudaSuccess
            && cudaMemset(mCounter, 0, bytes) == cudaSuccess
            && cudaStreamSynchronize(nullptr) == cudaSuccess)
            return;
        release();
        cudaGetLastError(); // the next launch must not find it
    }
    void release()
    {
        if (mCounter != nullptr) // cudaFree(nullptr) would start CUDA
            cudaFree(mCounter);
        mCounter = nullptr;
    }
    unsigned* get() const { return mCounter; }

private:
    unsigned* mCounter = nullptr;
};

int32_t launch(Kind kind, Attributes const& a, PluginTensorDesc const* in, int count, PluginTensorDesc const& out,
    void const* const* inputs, void* const* outputs, void* workspace, cudaStream_t stream,
    Tickets const& tickets)
{
    Tensor given[3];
    for (int i = 0; i < count && i < 3; ++i)
        given[i] = tensor(in[i], inputs[i]);
    std::string const wrong = check(kind, a, given, count);
    if (!wrong.empty())
        return complain(kind, wrong), 1;
    cudaError_t const status = run(kind, a, given, count, tensor(out, outputs[0]), workspace, stream, tickets.get());
    if (status != cudaSuccess)
        complain(kind, std::string("CUDA reports: ") + cudaGetErrorString(status));
    return status == cudaSuccess ? 0 : 1;
}

size_t workspace_of(Kind kind, nvinfer1::Dims const& d)
{
    int64_t dims[kMaxRank] = {};
    for (int i = 0; i < d.nbDims && i < kMaxRank; ++i)
        dims[i] = d.d[i];
    return workspace_bytes(kind, d.nbDims, dims);
}

nvinfer1::DimsExprs output_dims(Kind kind, Attributes const& a, nvinfer1::DimsExprs x, nvinfer1::IExprBuilder& build)
{
    if (kind != Kind::kSurgeonReflectPad || a.pads_count != 2 * x.nbDims)
        return x; // a wrong number of pads is refused when the plugin is configured
    for (int i = 0; i < x.nbDims; ++i)
    {
        int64_t const grown = growth(kind, a, i);
        if (grown > 0)
            x.d[i] = build.operation(nvinfer1::DimensionOperation::kSUM, *x.d[i], *build.constant(int32_t(grown)));
        if (grown < 0)
            x.d[i] = build.operation(nvinfer1::DimensionOperation::kSUB, *x.d[i], *build.constant(int32_t(-grown)));
    }
    return x;
}

// --------------------------------------------------------------------------------------------------- fields

GivenField::Type given_type(PluginFieldType t)
{
    switch (t)
    {
    case PluginFieldType::kFLOAT32: return GivenField::Type::kFloat32;
    case PluginFieldType::kFLOAT64: return GivenField::Type::kFloat64;
    case PluginFieldType::kINT32: return GivenField::Type::kInt32;
#if NV_TENSORRT_MAJOR >= 10
    case PluginFieldType::kINT64: return GivenField::Type::kInt64;
#endif
    case PluginFieldType::kCHAR: return GivenField::Type::kChar;
    default: return GivenField::Type::kOther;
    }
}

std::vector<GivenField> given_fields(PluginFieldCollection const* fields)
{
    std::vector<GivenField> given;
    for (int i = 0; fields != nullptr && i < fields->nbFields; ++i)
    {
        PluginField const& f = fields->fields[i];
        if (f.name != nullptr)
            given.push_back(GivenField{f.name, given_type(f.type), f.data, f.length});
    }
    return given;
}

// What a creator tells the parser: the names and types of the fields to fill.
struct FieldNames
{
    std::vector<PluginField> fields;
    PluginFieldCollection collection{};

    explicit FieldNames(Kind kind)
    {
        for (FieldInfo const& f : plugin_info(kind).fields)
            fields.emplace_back(f.name, nullptr, field_type(f.type), f.type == FieldType::INTS ? 0 : 1);
        collection.nbFields = int32_t(fields.size());
        collection.fields = fields.data();
    }

    static PluginFieldType field_type(FieldType t)
    {
        switch (t)
        {
        case FieldType::FLOAT: return PluginFieldType::kFLOAT32;
        case FieldType::STRING: return PluginFieldType::kCHAR;
        case FieldType::INT:
        case FieldType::INTS: break;
        }
        return PluginFieldType::kINT32;
    }
};

#if NV_TENSORRT_MAJOR < 10
// ------------------------------------------------------------------------------------- TensorRT 8.2 to 9.x

class Plugin final : public nvinfer1::IPluginV2DynamicExt
{
public:
    Plugin(Kind kind, Attributes const& attributes) : mKind(kind), mAttributes(attributes) {}

    nvinfer1::IPluginV2DynamicExt* clone() const noexcept override
    {
        auto* const copy = new (std::nothrow) Plugin(mKind, mAttributes);
        if (copy == nullptr)
            return nullptr;
        copy->mNamespace = mNamespace;
        copy->mTickets.make(mKind); // every execution context has a clone of its own
        return copy;
    }
    void destroy() noexcept override { delete this; }
    int32_t initialize() noexcept override { return 0; }
    void terminate() noexcept override {}

    char const* getPluginType() const noexcept override { return plugin_info(mKind).name; }
    char const* getPluginVersion() const noexcept override { return plugin_info(mKind).version; }
    void setPluginNamespace(char const* name) noexcept override { mNamespace = name ? name : ""; }
    char const* getPluginNamespace() const noexcept override { return mNamespace.c_str(); }

    int32_t getNbOutputs() const noexcept override { return 1; }
    DataType getOutputDataType(int32_t, DataType const* types, int32_t) const noexcept override { return types[0]; }
    nvinfer1::DimsExprs getOutputDimensions(
        int32_t, nvinfer1::DimsExprs const* in, int32_t, nvinfer1::IExprBuilder& build) noexcept override
    {
        return output_dims(mKind, mAttributes, in[0], build);
    }
    bool supportsFormatCombination(int32_t pos, PluginTensorDesc const* io, int32_t inputs, int32_t) noexcept override
    {
        if (pos == inputs) // the output, asked for last: a combination of inputs that no format would mend
        {
            std::string const wrong = check_descriptions(mKind, mAttributes, io, inputs);
            if (!wrong.empty())
                return complain(mKind, wrong), false;
        }
        return supports(mKind, mAttributes, pos, io[0], io[pos], inputs);
    }
    void configurePlugin(nvinfer1::DynamicPluginTensorDesc const*, int32_t inputs,
        nvinfer1::DynamicPluginTensorDesc const*, int32_t) noexcept override
    {
        mAttributes.inputs = inputs;
    }
    size_t getWorkspaceSize(
        PluginTensorDesc const* in, int32_t, PluginTensorDesc const*, int32_t) const noexcept override
    {
        return workspace_of(mKind, in[0].dims);
    }
    int32_t enqueue(PluginTensorDesc const* in, PluginTensorDesc const* out, void const* const* inputs,
        void* const* outputs, void* workspace, cudaStream_t stream) noexcept override
    {
        return launch(
            mKind, mAttributes, in, mAttributes.inputs, out[0], inputs, outputs, workspace, stream, mTickets);
    }

    size_t getSerializationSize() const noexcept override { return kSerializedSize; }
    void serialize(void* buffer) const noexcept override { surgeon::serialize(mKind, mAttributes, buffer); }

private:
    Kind const mKind;
    Attributes mAttributes;
    Tickets mTickets;
    std::string mNamespace = kNamespace;
};

class Creator final : public nvinfer1::IPluginCreator
{
public:
    explicit Creator(Kind kind) : mKind(kind), mNames(kind) {}

    char const* getPluginName() const noexcept override { return plugin_info(mKind).name; }
    char const* getPluginVersion() const noexcept override { return plugin_info(mKind).version; }
    void setPluginNamespace(char const* name) noexcept override { mNamespace = name ? name : ""; }
    char const* getPluginNamespace() const noexcept override { return mNamespace.c_str(); }
    PluginFieldCollection const* getFieldNames() noexcept override { return &mNames.collection; }

    nvinfer1::IPluginV2* createPlugin(char const*, PluginFieldCollection const* fields) noexcept override
    {
        return made(parse(mKind, given_fields(fields)));
    }
    nvinfer1::IPluginV2* deserializePlugin(char const*, void const* data, size_t length) noexcept override
    {
        return made(deserialize(mKind, data, length));
    }

private:
    nvinfer1::IPluginV2* made(Parsed const& parsed) const
    {
        if (!parsed.error.empty())
            return complain(mKind, parsed.error), nullptr;
        auto* const plugin = new (std::nothrow) Plugin(mKind, parsed.attributes);
        if (plugin != nullptr)
            plugin->setPluginNamespace(mNamespace.c_str());
        return plugin;
    }

    Kind const mKind;
    FieldNames mNames;
    std::string mNamespace = kNamespace;
};

using AnyCreator = nvinfer1::IPluginCreator;

#else
// ------------------------------------------------------------------------------------- TensorRT 10 and later

constexpr char const* kStateField = "surgeon_state"; // the serialised attributes, in the format of attributes.h

class Plugin final : public nvinfer1::IPluginV3,
                     public nvinfer1::IPluginV3OneCore,
                     public nvinfer1::IPluginV3OneBuild,
                     public nvinfer1::IPluginV3OneRuntime
{
public:
    Plugin(Kind kind, Attributes const& attributes) : mKind(kind), mAttributes(attributes), mState(kSerializedSize) {}

    nvinfer1::IPluginCapability* getCapabilityInterface(nvinfer1::PluginCapabilityType type) noexcept override
    {
        switch (type)
        {
        case nvinfer1::PluginCapabilityType::kCORE: return static_cast<nvinfer1::IPluginV3OneCore*>(this);
        case nvinfer1::PluginCapabilityType::kBUILD: return static_cast<nvinfer1::IPluginV3OneBuild*>(this);
        case nvinfer1::PluginCapabilityType::kRUNTIME: return static_cast<nvinfer1::IPluginV3OneRuntime*>(this);
        }
        return nullptr;
    }
    nvinfer1::IPluginV3* clone() noexcept override { return copy(); }
    nvinfer1::IPluginV3* attachToContext(nvinfer1::IPluginResourceContext*) noexcept override
    {
        Plugin* const attached = copy();
        if (attached != nullptr)
            attached->mTickets.make(mKind);
        return attached;
    }

    char const* getPluginName() const noexcept override { return plugin_info(mKind).name; }
    char const* getPluginVersion() const noexcept override { return plugin_info(mKind).version; }
    char const* getPluginNamespace() const noexcept override { return kNamespace; }

    int32_t getNbOutputs() const noexcept override { return 1; }
    int32_t getOutputDataTypes(DataType* out, int32_t, DataType const* in, int32_t) const noexcept override
    {
        out[0] = in[0];
        return 0;
    }
    int32_t getOutputShapes(nvinfer1::DimsExprs const* in, int32_t, nvinfer1::DimsExprs const*, int32_t,
        nvinfer1::DimsExprs* out, int32_t, nvinfer1::IExprBuilder& build) noexcept override
    {
        if (mKind == Kind::kSurgeonReflectPad && mAttributes.pads_count != 2 * in[0].nbDims)
        {
            complain(mKind, "pads has " + std::to_string(mAttributes.pads_count) + " entries, the input has "
                + std::to_string(in[0].nbDims) + " axes");
            return 1;
        }
        out[0] = output_dims(mKind, mAttributes, in[0], build);
        return 0;
    }
    bool supportsFormatCombination(
        int32_t pos, nvinfer1::DynamicPluginTensorDesc const* io, int32_t inputs, int32_t) noexcept override
    {
        return supports(mKind, mAttributes, pos, io[0].desc, io[pos].desc, inputs);
    }
    int32_t configurePlugin(nvinfer1::DynamicPluginTensorDesc const* in, int32_t inputs,
        nvinfer1::DynamicPluginTensorDesc const*, int32_t) noexcept override
    {
        mAttributes.inputs = inputs;
        std::vector<PluginTensorDesc> descriptions;
        for (int i = 0; i < inputs; ++i)
            descriptions.push_back(in[i].desc);
        return checked(descriptions.data(), inputs);
    }
    int32_t onShapeChange(
        PluginTensorDesc const* in, int32_t inputs, PluginTensorDesc const*, int32_t) noexcept override
    {
        mAttributes.inputs = inputs;
        return checked(in, inputs);
    }
    size_t getWorkspaceSize(nvinfer1::DynamicPluginTensorDesc const* in, int32_t,
        nvinfer1::DynamicPluginTensorDesc const*, int32_t) const noexcept override
    {
        return workspace_of(mKind, in[0].max);
    }
    int32_t enqueue(PluginTensorDesc const* in, PluginTensorDesc const* out, void const* const* inputs,
        void* const* outputs, void* workspace, cudaStream_t stream) noexcept override
    {
        return launch(
            mKind, mAttributes, in, mAttributes.inputs, out[0], inputs, outputs, workspace, stream, mTickets);
    }
    PluginFieldCollection const* getFieldsToSerialize() noexcept override
    {
        surgeon::serialize(mKind, mAttributes, mState.data());
        mField = PluginField(kStateField, mState.data(), PluginFieldType::kINT8, int32_t(mState.size()));
        mFields.nbFields = 1;
        mFields.fields = &mField;
        return &mFields;
    }

private:
    int32_t checked(PluginTensorDesc const* in, int32_t inputs) const
    {
        std::string const wrong = check_descriptions(mKind, mAttributes, in, inputs);
        return wrong.empty() ? 0 : (complain(mKind, wrong), 1);
    }
    Plugin* copy() const { return new (std::nothrow) Plugin(mKind, mAttributes); }

    Kind const mKind;
    Attributes mAttributes;
    Tickets mTickets;
    std::vector<char> mState;
    PluginField mField;
    PluginFieldCollection mFields{};
};

class Creator final : public nvinfer1::IPluginCreatorV3One
{
public:
    explicit Creator(Kind kind) : mKind(kind), mNames(kind) {}

    char const* getPluginName() const noexcept override { return plugin_info(mKind).name; }
    char const* getPluginVersion() const noexcept override { return plugin_info(mKind).version; }
    char const* getPluginNamespace() const noexcept override { return kNamespace; }
    PluginFieldCollection const* getFieldNames() noexcept override { return &mNames.collection; }

    nvinfer1::IPluginV3* createPlugin(
        char const*, PluginFieldCollection const* fields, nvinfer1::TensorRTPhase phase) noexcept override
    {
        Parsed const parsed
            = phase == nvinfer1::TensorRTPhase::kRUNTIME ? stored(fields) : parse(mKind, given_fields(fields));
        if (!parsed.error.empty())
            return complain(mKind, parsed.error), nullptr;
        return new (std::nothrow) Plugin(mKind, parsed.attributes);
    }

private:
    Parsed stored(PluginFieldCollection const* fields) const
    {
        for (int i = 0; fields != nullptr && i < fields->nbFields; ++i)
            if (fields->fields[i].name != nullptr && std::string(fields->fields[i].name) == kStateField)
                return deserialize(mKind, fields->fields[i].data, size_t(fields->fields[i].length));
        return deserialize(mKind, nullptr, 0);
    }

    Kind const mKind;
    FieldNames mNames;
};

using AnyCreator = nvinfer1::IPluginCreatorInterface;

#endif

// ------------------------------------------------------------------------------------------------ registration

std::vector<std::unique_ptr<Creator>>& creators()
{
    static auto& all = *[] { // never destroyed: the registry outlives this library's static objects
        auto* const made = new std::vector<std::unique_ptr<Creator>>;
        for (int32_t kind = 0; kind < int32_t(Kind::kCount); ++kind)
            made->push_back(std::make_unique<Creator>(Kind(kind)));
        return made;
    }();
    return all;
}

// Loading the library is enough. Against the stub, and in a process without TensorRT, there is no registry.
struct Registration
{
    Registration()
    {
        nvinfer1::IPluginRegistry* const registry = getPluginRegistry();
        if (registry == nullptr)
            return;
        for (auto& creator : creators())
            registry->registerCreator(*creator, kNamespace);
    }
} const registration;

} // namespace
} // namespace surgeon

// What IPluginRegistry::loadLibrary() (`trtexec --dynamicPlugins`) looks for.
#define SURGEON_EXPORT extern "C" __attribute__((visibility("default")))

#if NV_TENSORRT_MAJOR >= 10
SURGEON_EXPORT nvinfer1::IPluginCreatorInterface* const* getCreators(int32_t& count)
#else
SURGEON_EXPORT nvinfer1::IPluginCreator* const* getPluginCreators(int32_t& count)
#endif
{
    static std::vector<surgeon::AnyCreator*> const list = [] {
        std::vector<surgeon::AnyCreator*> pointers;
        for (auto& creator : surgeon::creators())
            pointers.push_back(creator.get());
        return pointers;
    }();
    count = int32_t(list.size());
    return list.data();
}

SURGEON_EXPORT void setLoggerFinder(void*) {}

// The major version of TensorRT that this library was built for.
SURGEON_EXPORT int32_t surgeon_plugins_tensorrt_major()
{
    return NV_TENSORRT_MAJOR;
}
