// Drives the built library's creators and plugins as TensorRT would, without TensorRT: against the stub, or beside it.
//
//   plugin_test LIB.so             fields, serialisation, corrupt blobs, shapes, formats; no GPU needed
//   plugin_test LIB.so gpu         the same, a large tensor, and laps of 10,000 cycles of create, enqueue, serialise, deserialise, destroy
//
// Compiled against the headers of the version that LIB.so was built for. Exit status 0 when everything held.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <memory>
#include <string>
#include <vector>

#include <NvInfer.h>
#include <cuda_runtime_api.h>

using namespace nvinfer1;

namespace
{

int failures = 0;

void expect(bool held, std::string const& what)
{
    if (held)
        return;
    ++failures;
    std::printf("FAIL %s\n", what.c_str());
}

// ---------------------------------------------------------------- dimension expressions that are numbers

struct Number final : IDimensionExpr, apiv::VDimensionExpr
{
    int64_t value;
    explicit Number(int64_t v) : value(v) { this->IDimensionExpr::mImpl = this; }
    bool isConstant() const noexcept override { return true; }
#if NV_TENSORRT_MAJOR >= 10
    int64_t getConstantValue() const noexcept override { return value; }
    bool isSizeTensor() const noexcept override { return false; }
#else
    int32_t getConstantValue() const noexcept override { return int32_t(value); }
#endif
};

int64_t value_of(IDimensionExpr const* e)
{
    return e->getConstantValue();
}

struct Builder final : IExprBuilder, apiv::VExprBuilder
{
    std::vector<std::unique_ptr<Number>> made;
    Builder() { this->IExprBuilder::mImpl = this; }
    IDimensionExpr const* make(int64_t v)
    {
        made.push_back(std::make_unique<Number>(v));
        return made.back().get();
    }
    IDimensionExpr const* compute(DimensionOperation op, IDimensionExpr const& a, IDimensionExpr const& b)
    {
        int64_t const x = value_of(&a), y = value_of(&b);
        return make(op == DimensionOperation::kSUM ? x + y : op == DimensionOperation::kSUB ? x - y : -1);
    }
#if NV_TENSORRT_MAJOR >= 10
    IDimensionExpr const* constant(int64_t v) noexcept override { return make(v); }
    IDimensionExpr const* declareSizeTensor(int32_t, IDimensionExpr const&, IDimensionExpr const&) noexcept override
    {
        return nullptr;
    }
#else
    IDimensionExpr const* constant(int32_t v) noexcept override { return make(v); }
#endif
    IDimensionExpr const* operation(
        DimensionOperation op, IDimensionExpr const& a, IDimensionExpr const& b) noexcept override
    {
        return compute(op, a, b);
    }
};

// ------------------------------------------------------------------- one face for both plugin interfaces

#if NV_TENSORRT_MAJOR >= 10
using AnyCreator = IPluginCreatorV3One;
using AnyPlugin = IPluginV3;

IPluginV3OneBuild* build_side(AnyPlugin* p)
{
    return static_cast<IPluginV3OneBuild*>(p->getCapabilityInterface(PluginCapabilityType::kBUILD));
}
IPluginV3OneRuntime* run_side(AnyPlugin* p)
{
    return static_cast<IPluginV3OneRuntime*>(p->getCapabilityInterface(PluginCapabilityType::kRUNTIME));
}
void destroy(AnyPlugin* p) { delete p; }
AnyPlugin* create(AnyCreator* c, PluginFieldCollection const* f)
{
    return c->createPlugin("node", f, TensorRTPhase::kBUILD);
}
std::vector<char> serialized(AnyPlugin* p)
{
    PluginField const& f = run_side(p)->getFieldsToSerialize()->fields[0];
    return {static_cast<char const*>(f.data), static_cast<char const*>(f.data) + f.length};
}
AnyPlugin* deserialized(AnyCreator* c, void const* data, size_t size)
{
    PluginField const field("surgeon_state", data, PluginFieldType::kINT8, int32_t(size));
    PluginFieldCollection const all{1, &field};
    return c->createPlugin("node", &all, TensorRTPhase::kRUNTIME);
}
AnyPlugin* cloned(AnyPlugin* p) { return run_side(p)->attachToContext(nullptr); }
int enqueue(AnyPlugin* p, PluginTensorDesc const* in, int count, PluginTensorDesc const& out, void const* const* x, void* const* y, void* ws)
{
    if (run_side(p)->onShapeChange(in, count, &out, 1) != 0)
        return 1;
    return run_side(p)->enqueue(in, &out, x, y, ws, 0);
}
void configure(AnyPlugin* p, PluginTensorDesc const* in, int count, PluginTensorDesc const& out)
{
    std::vector<DynamicPluginTensorDesc> d;
    for (int i = 0; i < count; ++i)
        d.push_back(DynamicPluginTensorDesc{in[i], in[i].dims, in[i].dims, in[i].dims});
    DynamicPluginTensorDesc const o{out, out.dims, out.dims, out.dims};
    expect(build_side(p)->configurePlugin(d.data(), count, &o, 1) == 0, "configurePlugin");
}
bool supports(AnyPlugin* p, int pos, PluginTensorDesc const* io, int inputs)
{
    std::vector<DynamicPluginTensorDesc> d;
    for (int i = 0; i <= inputs; ++i)
        d.push_back(DynamicPluginTensorDesc{io[i], io[i].dims, io[i].dims, io[i].dims});
    return build_side(p)->supportsFormatCombination(pos, d.data(), inputs, 1);
}
DimsExprs shape(AnyPlugin* p, DimsExprs const& x, int inputs, IExprBuilder& b)
{
    std::vector<DimsExprs> in(inputs, x);
    DimsExprs out{};
    expect(build_side(p)->getOutputShapes(in.data(), inputs, nullptr, 0, &out, 1, b) == 0, "getOutputShapes");
    return out;
}
char const* const kEntry = "getCreators";
using Listed = IPluginCreatorInterface;
#else
using AnyCreator = IPluginCreator;
using AnyPlugin = IPluginV2DynamicExt;

void destroy(AnyPlugin* p) { p->destroy(); }
AnyPlugin* create(AnyCreator* c, PluginFieldCollection const* f)
{
    return static_cast<AnyPlugin*>(c->createPlugin("node", f));
}
std::vector<char> serialized(AnyPlugin* p)
{
    std::vector<char> blob(p->getSerializationSize());
    p->serialize(blob.data());
    return blob;
}
AnyPlugin* deserialized(AnyCreator* c, void const* data, size_t size)
{
    return static_cast<AnyPlugin*>(c->deserializePlugin("node", data, size));
}
AnyPlugin* cloned(AnyPlugin* p) { return p->clone(); }
int enqueue(AnyPlugin* p, PluginTensorDesc const* in, int, PluginTensorDesc const& out, void const* const* x, void* const* y, void* ws)
{
    return p->enqueue(in, &out, x, y, ws, 0);
}
void configure(AnyPlugin* p, PluginTensorDesc const* in, int count, PluginTensorDesc const& out)
{
    std::vector<DynamicPluginTensorDesc> d;
    for (int i = 0; i < count; ++i)
        d.push_back(DynamicPluginTensorDesc{in[i], in[i].dims, in[i].dims});
    DynamicPluginTensorDesc const o{out, out.dims, out.dims};
    p->configurePlugin(d.data(), count, &o, 1);
}
bool supports(AnyPlugin* p, int pos, PluginTensorDesc const* io, int inputs)
{
    return p->supportsFormatCombination(pos, io, inputs, 1);
}
DimsExprs shape(AnyPlugin* p, DimsExprs const& x, int inputs, IExprBuilder& b)
{
    std::vector<DimsExprs> in(inputs, x);
    return p->getOutputDimensions(0, in.data(), inputs, b);
}
char const* const kEntry = "getPluginCreators";
using Listed = IPluginCreator;
#endif

// ----------------------------------------------------------------------------------------------- the test

float const kAlpha = 0.25f, kEpsilon = 1e-6f;
int32_t const kAxis = -3, kPads[] = {0, 0, 2, 1, 0, 0, 1, -1};
char const kMode[] = "max_norm", kPadMode[] = "edge";

std::vector<PluginField> fields_of(std::string const& name, bool terminated)
{
    auto const text = [&](char const* field, char const* s) {
        return PluginField(field, s, PluginFieldType::kCHAR, int32_t(std::strlen(s) + terminated));
    };
    std::vector<PluginField> f{text("plugin_version", "1"), text("plugin_namespace", "surgeon")};
    if (name == "SurgeonL2Norm")
    {
        f.emplace_back("axis", &kAxis, PluginFieldType::kINT32, 1);
        f.emplace_back("epsilon", &kEpsilon, PluginFieldType::kFLOAT32, 1);
        f.push_back(text("mode", kMode));
    }
    if (name == "SurgeonInstanceNorm")
    {
        f.emplace_back("epsilon", &kEpsilon, PluginFieldType::kFLOAT32, 1);
        f.emplace_back("slope", &kAlpha, PluginFieldType::kFLOAT32, 1);
    }
    if (name == "SurgeonReflectPad")
    {
        f.emplace_back("pads", kPads, PluginFieldType::kINT32, 8);
        f.push_back(text("mode", kPadMode));
    }
    if (name == "SurgeonLeakyRelu")
        f.emplace_back("alpha", &kAlpha, PluginFieldType::kFLOAT32, 1);
    return f;
}

PluginTensorDesc description(std::vector<int64_t> const& dims, DataType type, TensorFormat format = TensorFormat::kLINEAR)
{
    PluginTensorDesc d{};
    d.dims.nbDims = int32_t(dims.size());
    for (size_t i = 0; i < dims.size(); ++i)
        d.dims.d[i] = static_cast<std::remove_reference_t<decltype(d.dims.d[0])>>(dims[i]);
    d.type = type;
    d.format = format;
    return d;
}

std::vector<int64_t> const kShape{2, 8, 6, 10};

int inputs_of(std::string const& name)
{
    return name == "SurgeonPRelu" || name == "SurgeonL2Norm" ? 2 : name == "SurgeonInstanceNorm" ? 3 : 1;
}

std::vector<int64_t> output_shape(std::string const& name)
{
    return name == "SurgeonReflectPad" ? std::vector<int64_t>{2, 8, 9, 10} : kShape;
}

std::vector<PluginTensorDesc> descriptions(std::string const& name, DataType type)
{
    std::vector<PluginTensorDesc> d{description(kShape, type)};
    for (int i = 1; i < inputs_of(name); ++i)
        d.push_back(name == "SurgeonPRelu" ? description({8, 1, 1}, type) : description({8}, type));
    d.push_back(description(output_shape(name), type));
    return d;
}

void test_wrong_fields(AnyCreator* c)
{
    std::string const name = c->getPluginName();
    auto const refused = [&](std::vector<PluginField> f, std::string const& what) {
        PluginFieldCollection const all{int32_t(f.size()), f.data()};
        expect(create(c, &all) == nullptr, name + " takes " + what);
    };
    double const none = 0.5;
    if (name == "SurgeonReflectPad")
    {
        refused({}, "no pads");
        refused({PluginField("pads", kPads, PluginFieldType::kINT32, 7)}, "an odd number of pads");
        refused({PluginField("pads", kPads, PluginFieldType::kINT32, 18)}, "pads of nine axes");
        refused({PluginField("pads", nullptr, PluginFieldType::kINT32, 8)}, "pads without data");
        refused({PluginField("pads", kPads, PluginFieldType::kINT32, 8), PluginField("mode", "constant", PluginFieldType::kCHAR, 8)}, "mode constant");
    }
    if (name == "SurgeonL2Norm")
    {
        refused({PluginField("mode", "max", PluginFieldType::kCHAR, 3)}, "mode max");
        refused({PluginField("mode", &none, PluginFieldType::kFLOAT64, 1)}, "a mode that is a number");
        refused({PluginField("axis", &none, PluginFieldType::kFLOAT64, 1)}, "axis 0.5");
        refused({PluginField("epsilon", "small", PluginFieldType::kCHAR, 5)}, "an epsilon that is a string");
    }
}

void test_corrupt(AnyCreator* c, std::vector<char> const& blob)
{
    std::string const name = c->getPluginName();
    auto const refused = [&](std::vector<char> b, size_t size, std::string const& what) {
        std::unique_ptr<char[]> exact(new char[std::max<size_t>(size, 1)]); // a read past its end is one past an allocation's
        std::memcpy(exact.get(), b.data(), std::min(size, b.size()));
        AnyPlugin* const p = deserialized(c, exact.get(), size);
        expect(p == nullptr, name + " takes a blob " + what);
        if (p != nullptr)
            destroy(p);
    };
    for (size_t size = 0; size < blob.size(); ++size)
        refused(blob, size, "cut to " + std::to_string(size) + " bytes");
    std::vector<char> longer = blob;
    longer.push_back(0);
    refused(longer, longer.size(), "with a byte more");
    for (size_t i = 0; i < blob.size(); ++i)
        for (int bit = 0; bit < 8; ++bit)
        {
            std::vector<char> flipped = blob;
            flipped[i] = char(flipped[i] ^ (1 << bit));
            refused(flipped, flipped.size(), "with bit " + std::to_string(bit) + " of byte " + std::to_string(i) + " flipped");
        }
    expect(deserialized(c, nullptr, blob.size()) == nullptr, name + " takes a null blob");
}

void test_creator(AnyCreator* c, AnyCreator* other)
{
    std::string const name = c->getPluginName();
    expect(std::string(c->getPluginVersion()) == "1" && std::string(c->getPluginNamespace()) == "surgeon", name + " version, namespace");
    for (bool terminated : {false, true})
    {
        std::vector<PluginField> const f = fields_of(name, terminated);
        PluginFieldCollection const all{int32_t(f.size()), f.data()};
        AnyPlugin* const p = create(c, &all);
        expect(p != nullptr, name + " refuses its fields");
        if (p == nullptr)
            return;
        std::vector<char> const blob = serialized(p);
        AnyPlugin* const q = deserialized(c, blob.data(), blob.size());
        expect(q != nullptr && serialized(q) == blob, name + " does not come back from its blob");
        if (q != nullptr)
            destroy(q);
        expect(deserialized(other, blob.data(), blob.size()) == nullptr, name + "'s blob is taken by another plugin");
        if (!terminated)
            test_corrupt(c, blob);

        Builder b;
        DimsExprs x{};
        x.nbDims = 4;
        for (int i = 0; i < 4; ++i)
            x.d[i] = b.make(kShape[i]);
        DimsExprs const y = shape(p, x, inputs_of(name), b);
        for (int i = 0; i < 4; ++i)
            expect(value_of(y.d[i]) == output_shape(name)[i], name + ": extent of axis " + std::to_string(i));

        int const n = inputs_of(name);
        auto const all_supported = [&](std::vector<PluginTensorDesc> const& d) {
            for (int i = 0; i <= n; ++i)
                if (!supports(p, i, d.data(), n))
                    return false;
            return true;
        };
        expect(all_supported(descriptions(name, DataType::kFLOAT)), name + ": fp32");
        expect(all_supported(descriptions(name, DataType::kHALF)), name + ": fp16");
        expect(!all_supported(descriptions(name, DataType::kINT32)), name + ": int32");
#if NV_TENSORRT_MAJOR >= 10
        expect(all_supported(descriptions(name, DataType::kBF16)), name + ": bf16");
#endif
        std::vector<PluginTensorDesc> mixed = descriptions(name, DataType::kHALF);
        mixed[n].type = DataType::kFLOAT;
        expect(!all_supported(mixed), name + ": fp16 in, fp32 out");
        std::vector<PluginTensorDesc> packed = descriptions(name, DataType::kHALF);
        packed[0].format = packed[n].format = TensorFormat::kHWC8;
        bool const wanted = name == "SurgeonL2Norm" || name == "SurgeonReflectPad" || name == "SurgeonLeakyRelu";
        expect(all_supported(packed) == wanted, name + ": channel-packed fp16");
        packed[0].dims.d[1] = packed[n].dims.d[1] = 7;
        expect(!supports(p, 0, packed.data(), n), name + ": seven packed channels");
        AnyPlugin* const copy = cloned(p);
        expect(copy != nullptr && serialized(copy) == blob, name + ": clone");
        destroy(copy);
        destroy(p);
    }
    test_wrong_fields(c);
}

#if NV_TENSORRT_MAJOR >= 10
// A tensor that outgrows the L2 cache, by a context of its own, which has tickets, and by one that has none.
void test_large(AnyCreator* c)
{
    std::vector<PluginField> const f = fields_of("SurgeonL2Norm", true);
    PluginFieldCollection const all{int32_t(f.size()), f.data()};
    int const images = 512, channels = 135, height = 2, width = 367;
    size_t const elements = size_t(images) * channels * height * width, some = 1 << 16;
    PluginTensorDesc const large = description({images, channels, height, width}, DataType::kFLOAT);
    std::vector<PluginTensorDesc> const d{large, description({channels}, DataType::kFLOAT), large};
    AnyPlugin* const p = create(c, &all);
    configure(p, d.data(), 2, d[2]);
    void *x = nullptr, *w = nullptr, *y = nullptr, *ws = nullptr;
    std::vector<float> in(elements), wanted, got(some);
    for (size_t i = 0; i < elements; ++i)
        in[i] = float(int(i * 2654435761u >> 20) % 2001 - 1000) / 500.f;
    std::vector<float> const weights(channels, 1.5f);
    bool const room = cudaMalloc(&x, elements * 4) == cudaSuccess && cudaMalloc(&y, elements * 4) == cudaSuccess
        && cudaMalloc(&w, channels * 4) == cudaSuccess && cudaMalloc(&ws, 1 << 10) == cudaSuccess;
    expect(room, "GPU memory for a large tensor");
    if (room)
    {
        cudaMemcpy(x, in.data(), elements * 4, cudaMemcpyHostToDevice);
        cudaMemcpy(w, weights.data(), channels * 4, cudaMemcpyHostToDevice);
        void* const buffers[] = {x, w};
        for (AnyPlugin* const one : {cloned(p), p->clone()}) // with tickets and without
        {
            cudaMemset(y, 0xdb, elements * 4);
            expect(enqueue(one, d.data(), 2, d[2], buffers, &y, ws) == 0, "a large tensor");
            for (size_t from : {size_t(0), elements - some})
            {
                expect(cudaMemcpy(got.data(), static_cast<float*>(y) + from, some * 4, cudaMemcpyDeviceToHost)
                        == cudaSuccess, "a large tensor's kernel failed");
                if (wanted.size() < 2 * some)
                    wanted.insert(wanted.end(), got.begin(), got.end());
                float const* const want = wanted.data() + (from == 0 ? 0 : some);
                bool same = true;
                for (size_t i = 0; i < some; ++i)
                    same = same && std::fabs(got[i] - want[i]) <= 1e-6f;
                expect(same, "a large tensor's output depends on the tickets");
            }
            destroy(one);
        }
    }
    for (void* b : {x, y, w, ws})
        cudaFree(b);
    destroy(p);
}
#endif

size_t heap_in_use()
{
    return mallinfo2().uordblks;
}

// Of the whole device: other processes take and give back memory, too.
size_t device_in_use()
{
    size_t left = 0, whole = 0;
    expect(cudaDeviceSynchronize() == cudaSuccess, "a kernel failed");
    expect(cudaMemGetInfo(&left, &whole) == cudaSuccess, "cudaMemGetInfo");
    return whole - left;
}

// Everything an engine does with a plugin.
void cycle(AnyCreator* c, DataType type, std::vector<void*> buffers)
{
    std::string const name = c->getPluginName();
    std::vector<PluginField> const f = fields_of(name, true);
    PluginFieldCollection const all{int32_t(f.size()), f.data()};
    std::vector<PluginTensorDesc> const d = descriptions(name, type);
    int const n = inputs_of(name);
    AnyPlugin* const p = create(c, &all);
    configure(p, d.data(), n, d[n]);
    std::vector<char> const blob = serialized(p);
    AnyPlugin* const q = deserialized(c, blob.data(), blob.size());
    AnyPlugin* const run = cloned(q);
    expect(enqueue(run, d.data(), n, d[n], buffers.data(), &buffers[3], buffers[4]) == 0, name + ": enqueue");
    destroy(run);
    destroy(q);
    destroy(p);
}

// Nothing is left behind. What leaks does so in every lap: the smallest allocation has 512 bytes, so that those of a
// lap's cycles take some of the 2 MB at a time that the allocator asks the device for.
void test_cycles(std::vector<AnyCreator*> const& creators)
{
    constexpr size_t kBytes = 1 << 20;
    constexpr int kWarmUp = 100, kLaps = 3, kCycles = 10000;
    std::vector<void*> buffers(5);
    for (void*& p : buffers)
        if (cudaMalloc(&p, kBytes) != cudaSuccess || cudaMemset(p, 0, kBytes) != cudaSuccess)
        {
            std::printf("FAIL no GPU memory: %s\n", cudaGetErrorString(cudaGetLastError()));
            ++failures;
            return;
        }
    auto const lap = [&](int cycles) {
        for (int i = 0; i < cycles; ++i)
            for (AnyCreator* c : creators)
                cycle(c, i % 2 ? DataType::kHALF : DataType::kFLOAT, buffers);
    };
    lap(kWarmUp);
    size_t const heap = heap_in_use();
    long long growth[kLaps];
    for (long long& grown : growth)
    {
        size_t const before = device_in_use();
        lap(kCycles);
        grown = (long long) device_in_use() - (long long) before;
    }
    long long const heap_growth = (long long) heap_in_use() - (long long) heap; // the first line printed takes 4 KiB
    for (long long const grown : growth)
        std::printf("%d cycles of %zu plugins: device memory %+lld bytes\n", kCycles, creators.size(), grown);
    std::printf("heap %+lld bytes\n", heap_growth);
    expect(heap_growth == 0, "host memory grew");
    expect(*std::min_element(growth, growth + kLaps) <= 0, "device memory grew in every lap");
    for (void* p : buffers)
        cudaFree(p);
}

} // namespace

int main(int argc, char** argv)
{
    void* const library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
    if (library == nullptr)
    {
        std::printf("usage: plugin_test LIB.so [gpu]: %s\n", argc > 1 ? dlerror() : "");
        return 2;
    }
    auto* const major = reinterpret_cast<int32_t (*)()>(dlsym(library, "surgeon_plugins_tensorrt_major"));
    if (major == nullptr || major() != NV_TENSORRT_MAJOR)
    {
        std::printf("%s was not built for TensorRT %d\n", argv[1], NV_TENSORRT_MAJOR);
        return 2;
    }
    auto* const list = reinterpret_cast<Listed* const* (*) (int32_t&)>(dlsym(library, kEntry));
    int32_t count = 0;
    Listed* const* const found = list(count);
    std::vector<AnyCreator*> creators;
    for (int i = 0; i < count; ++i)
        creators.push_back(static_cast<AnyCreator*>(found[i]));
    expect(count == 5, "five creators");
    for (int i = 0; i < count; ++i)
        test_creator(creators[i], creators[(i + 1) % count]);
    bool const gpu = argc > 2 && std::string(argv[2]) == "gpu";
#if NV_TENSORRT_MAJOR >= 10
    for (AnyCreator* c : creators)
        if (gpu && std::string(c->getPluginName()) == "SurgeonL2Norm")
            test_large(c);
#endif
    if (gpu)
        test_cycles(creators);
    std::printf("TensorRT %d headers, %d creators, %d failures\n", NV_TENSORRT_MAJOR, count, failures);
    return failures ? 1 : 0;
}
