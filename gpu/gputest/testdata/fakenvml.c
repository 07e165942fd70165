// fakenvml is a small libnvidia-ml for tests. Every call reads the state file
// named by FAKENVML_STATE, so a test changes the "hardware" by replacing the
// file. One directive a line; '#' starts a comment:
//
//   driver 580.95.05          driver version
//   cuda 13000                1000*major + 10*minor
//   code CALL CODE            CALL returns CODE for every GPU (nvmlInit_v2 too)
//   code CALL@N CODE          the same for NVML index N only
//   block CALL                CALL never returns
//   gpu N key=value ...       one GPU; keys: uuid bus name total used reserved
//                             (MiB) cc mig mode util power temp throttle; not
//                             supported unless given: limit default (W) ecc
//                             remap (1 pending, 2 failed) recovery (NVML's number)
//   proc N PID MIB            a process; counts while PID lives
//   topo A B LEVEL            PCIe distance of a pair, else 50
//   nvlink A B COUNT          direct NVLinks
//   switch N N COUNT          NVLinks of a GPU (named twice) to an NVSwitch
//   xid SEQ N CODE            an XID; delivered once, by rising SEQ
//
// Values hold no blanks; '_' in a name stands for one. Symbols are left out by
// the linker's version script, not here.

#define NVML_NO_UNVERSIONED_FUNC_DEFS 1
#include "nvml.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_GPUS 64
#define MIB (1024ull * 1024ull)

struct gpu {
	int present, mig, mode, cc_major, cc_minor, has_memory;
	char uuid[80], bus[32], name[64];
	unsigned long long total, used, reserved, power, util, temp, throttle;
	long long limit, limit_default, ecc, remap, recovery; // one more than the value; 0 = not supported
};

// A device handle is a pointer into this array: its position is the NVML index.
// (This nvml.h wraps the pointer in a struct, which has the same ABI.)
static struct gpu handles[MAX_GPUS];
static unsigned long last_xid;

static int index_of(nvmlDevice_t d) { return (int)((struct gpu *)d.handle - handles); }

static char *read_state(void) {
	const char *path = getenv("FAKENVML_STATE");
	FILE *f = path ? fopen(path, "r") : NULL;
	if (!f) return NULL;
	static __thread char text[1 << 16];
	size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = 0;
	return text;
}

// each_line calls use for every line of the state until it returns non-zero.
static int each_line(int (*use)(char *line, void *arg), void *arg) {
	char *text = read_state(), *save = NULL;
	if (!text) return 0;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		int stop = use(line, arg);
		if (stop) return stop;
	}
	return 0;
}

struct outcome { const char *call; int index, code, block; };

static int find_outcome(char *line, void *arg) {
	struct outcome *o = arg;
	char name[128], with_index[160];
	int code;
	snprintf(with_index, sizeof with_index, "%s@%d", o->call, o->index);
	if (sscanf(line, "block %127s", name) == 1 && !strcmp(name, o->call)) o->block = 1;
	if (sscanf(line, "code %127s %d", name, &code) == 2 && (!strcmp(name, o->call) || !strcmp(name, with_index)))
		o->code = code;
	return 0;
}

// outcome is the code that the state gives a call; it blocks when told to.
static nvmlReturn_t outcome(const char *call, int index) {
	struct outcome o = {call, index, 0, 0};
	each_line(find_outcome, &o);
	while (o.block) pause();
	return (nvmlReturn_t)o.code;
}

#define BEGIN(index)                                        \
	do {                                                    \
		nvmlReturn_t r_ = outcome(__func__, (index));       \
		if (r_ != NVML_SUCCESS) return r_;                  \
	} while (0)

struct find_gpu { int index; struct gpu *out; };

static void set_field(struct gpu *g, const char *key, const char *value) {
	unsigned long long n = strtoull(value, NULL, 10);
	if (!strcmp(key, "uuid")) snprintf(g->uuid, sizeof g->uuid, "%s", value);
	else if (!strcmp(key, "bus")) snprintf(g->bus, sizeof g->bus, "%s", value);
	else if (!strcmp(key, "name")) {
		snprintf(g->name, sizeof g->name, "%s", value);
		for (char *c = g->name; *c; c++) if (*c == '_') *c = ' ';
	} else if (!strcmp(key, "total")) g->total = n * MIB, g->has_memory = 1;
	else if (!strcmp(key, "used")) g->used = n * MIB;
	else if (!strcmp(key, "reserved")) g->reserved = n * MIB;
	else if (!strcmp(key, "cc")) sscanf(value, "%d.%d", &g->cc_major, &g->cc_minor);
	else if (!strcmp(key, "mig")) g->mig = (int)n;
	else if (!strcmp(key, "mode")) g->mode = (int)n;
	else if (!strcmp(key, "util")) g->util = n;
	else if (!strcmp(key, "power")) g->power = n;
	else if (!strcmp(key, "temp")) g->temp = n;
	else if (!strcmp(key, "throttle")) g->throttle = n;
	else if (!strcmp(key, "limit")) g->limit = (long long)n + 1;
	else if (!strcmp(key, "default")) g->limit_default = (long long)n + 1;
	else if (!strcmp(key, "ecc")) g->ecc = (long long)n + 1;
	else if (!strcmp(key, "remap")) g->remap = (long long)n + 1;
	else if (!strcmp(key, "recovery")) g->recovery = (long long)n + 1;
}

static int alive(int pid) { return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM); }

static int read_gpu(char *line, void *arg) {
	struct find_gpu *f = arg;
	int index, pid, used = 0;
	unsigned long long mib;
	if (sscanf(line, "proc %d %d %llu", &index, &pid, &mib) == 3 && index == f->index && alive(pid))
		f->out->used += mib * MIB;
	if (sscanf(line, "gpu %d%n", &index, &used) != 1 || index != f->index) return 0;
	f->out->present = 1;
	char *save = NULL;
	for (char *word = strtok_r(line + used, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *eq = strchr(word, '=');
		if (!eq) continue;
		*eq = 0;
		unsigned long long before = f->out->used;
		set_field(f->out, word, eq + 1);
		if (!strcmp(word, "used")) f->out->used += before; // proc lines may come first
	}
	return 0;
}

static struct gpu gpu_at(int index) {
	struct gpu g = {0};
	struct find_gpu f = {index, &g};
	each_line(read_gpu, &f);
	return g;
}

static void copy(char *to, unsigned int size, const char *from) { snprintf(to, size, "%s", from); }

// --- the library ---------------------------------------------------------

nvmlReturn_t nvmlInit_v2(void) { BEGIN(-1); return NVML_SUCCESS; }

struct word { const char *key; char value[64]; };
static int find_word(char *line, void *arg) {
	struct word *w = arg;
	char key[32], value[64];
	if (sscanf(line, "%31s %63s", key, value) == 2 && !strcmp(key, w->key)) copy(w->value, sizeof w->value, value);
	return 0;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
	BEGIN(-1);
	struct word w = {"driver", ""};
	each_line(find_word, &w);
	copy(version, length, w.value);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
	BEGIN(-1);
	struct word w = {"cuda", "0"};
	each_line(find_word, &w);
	*version = atoi(w.value);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
	BEGIN(-1);
	*count = 0;
	while (*count < MAX_GPUS && gpu_at((int)*count).present) (*count)++;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
	BEGIN((int)index);
	if (index >= MAX_GPUS || !gpu_at((int)index).present) return NVML_ERROR_INVALID_ARGUMENT;
	device->handle = (void *)&handles[index];
	return NVML_SUCCESS;
}

#define TEXT_GETTER(name, field)                                             \
	nvmlReturn_t name(nvmlDevice_t d, char *text, unsigned int length) {     \
		BEGIN(index_of(d));                                                  \
		copy(text, length, gpu_at(index_of(d)).field);                       \
		return NVML_SUCCESS;                                                 \
	}
TEXT_GETTER(nvmlDeviceGetUUID, uuid)
TEXT_GETTER(nvmlDeviceGetName, name)

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *pci) {
	BEGIN(index_of(d));
	memset(pci, 0, sizeof *pci);
	copy(pci->busId, sizeof pci->busId, gpu_at(index_of(d)).bus);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m) {
	BEGIN(index_of(d));
	struct gpu g = gpu_at(index_of(d));
	if (!g.has_memory) return NVML_ERROR_NOT_SUPPORTED;
	m->total = g.total, m->used = g.used + g.reserved, m->free = g.total - m->used;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t *m) {
	BEGIN(index_of(d));
	struct gpu g = gpu_at(index_of(d));
	if (!g.has_memory) return NVML_ERROR_NOT_SUPPORTED;
	if (m->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	m->total = g.total, m->used = g.used, m->reserved = g.reserved;
	m->free = g.total - g.used - g.reserved;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int *major, int *minor) {
	BEGIN(index_of(d));
	struct gpu g = gpu_at(index_of(d));
	*major = g.cc_major, *minor = g.cc_minor;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned int *current, unsigned int *pending) {
	BEGIN(index_of(d));
	*current = *pending = (unsigned int)gpu_at(index_of(d)).mig;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u) {
	BEGIN(index_of(d));
	u->gpu = (unsigned int)gpu_at(index_of(d)).util, u->memory = 0;
	return NVML_SUCCESS;
}

#define NUMBER_GETTER(name, type, expression)                                \
	nvmlReturn_t name(nvmlDevice_t d, type *value) {                         \
		BEGIN(index_of(d));                                                  \
		struct gpu g = gpu_at(index_of(d));                                  \
		*value = (type)(expression);                                         \
		return NVML_SUCCESS;                                                 \
	}
NUMBER_GETTER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, g.mode)
NUMBER_GETTER(nvmlDeviceGetPowerUsage, unsigned int, g.power * 1000) // milliwatts
NUMBER_GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, g.throttle)
NUMBER_GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, g.throttle)
NUMBER_GETTER(nvmlDeviceGetSupportedEventTypes, unsigned long long, g.present ? nvmlEventTypeXidCriticalError : 0)

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, nvmlTemperatureSensors_t s, unsigned int *degrees) {
	BEGIN(index_of(d));
	if (s != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
	*degrees = (unsigned int)gpu_at(index_of(d)).temp;
	return NVML_SUCCESS;
}

#define OPTIONAL_GETTER(name, field, scale)                                   \
	nvmlReturn_t name(nvmlDevice_t d, unsigned int *value) {                  \
		BEGIN(index_of(d));                                                   \
		struct gpu g = gpu_at(index_of(d));                                   \
		if (!g.field) return NVML_ERROR_NOT_SUPPORTED;                        \
		*value = (unsigned int)(g.field - 1) * (scale);                       \
		return NVML_SUCCESS;                                                  \
	}
OPTIONAL_GETTER(nvmlDeviceGetPowerManagementLimit, limit, 1000)
OPTIONAL_GETTER(nvmlDeviceGetPowerManagementDefaultLimit, limit_default, 1000)

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter, unsigned long long *count) {
	BEGIN(index_of(d));
	struct gpu g = gpu_at(index_of(d));
	if (!g.ecc || type != NVML_MEMORY_ERROR_TYPE_UNCORRECTED || counter != NVML_VOLATILE_ECC) return NVML_ERROR_NOT_SUPPORTED;
	*count = (unsigned long long)(g.ecc - 1);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned int *correctable, unsigned int *uncorrectable, unsigned int *pending, unsigned int *failed) {
	BEGIN(index_of(d));
	struct gpu g = gpu_at(index_of(d));
	if (!g.remap) return NVML_ERROR_NOT_SUPPORTED;
	*correctable = *uncorrectable = 0;
	*pending = g.remap - 1 == 1, *failed = g.remap - 1 == 2;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int count, nvmlFieldValue_t *values) {
	BEGIN(index_of(d));
	struct gpu g = gpu_at(index_of(d));
	for (int i = 0; i < count; i++) {
		int known = values[i].fieldId == NVML_FI_DEV_GET_GPU_RECOVERY_ACTION && g.recovery;
		values[i].nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
		values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		values[i].value.uiVal = known ? (unsigned int)(g.recovery - 1) : 0;
	}
	return NVML_SUCCESS;
}

// --- processes -----------------------------------------------------------

struct processes { int index; unsigned int room, count; nvmlProcessInfo_t *out; };

static int find_process(char *line, void *arg) {
	struct processes *p = arg;
	int index, pid;
	unsigned long long mib;
	if (sscanf(line, "proc %d %d %llu", &index, &pid, &mib) != 3 || index != p->index || !alive(pid)) return 0;
	if (p->count < p->room) {
		memset(&p->out[p->count], 0, sizeof *p->out);
		p->out[p->count].pid = (unsigned int)pid;
		p->out[p->count].usedGpuMemory = mib ? mib * MIB : (unsigned long long)-1; // 0: the driver does not say
	}
	p->count++;
	return 0;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned int *count, nvmlProcessInfo_t *infos) {
	BEGIN(index_of(d));
	struct processes p = {index_of(d), *count, 0, infos};
	each_line(find_process, &p);
	*count = p.count;
	return p.count > p.room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t d, unsigned int *count, nvmlProcessInfo_t *infos) {
	(void)infos;
	BEGIN(index_of(d));
	*count = 0;
	return NVML_SUCCESS;
}

// --- topology ------------------------------------------------------------

struct pair { const char *word; int a, b, value; };

static int find_pair(char *line, void *arg) {
	struct pair *p = arg;
	char word[16];
	int a, b, value;
	if (sscanf(line, "%15s %d %d %d", word, &a, &b, &value) != 4 || strcmp(word, p->word)) return 0;
	if ((a == p->a && b == p->b) || (a == p->b && b == p->a)) p->value = value;
	return 0;
}

static int pair_value(const char *word, int a, int b, int otherwise) {
	struct pair p = {word, a, b, otherwise};
	each_line(find_pair, &p);
	return p.value;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuTopologyLevel_t *level) {
	BEGIN(index_of(a));
	*level = (nvmlGpuTopologyLevel_t)pair_value("topo", index_of(a), index_of(b), NVML_TOPOLOGY_SYSTEM);
	return NVML_SUCCESS;
}

// far_end finds where a link goes: -1 nowhere, -2 a switch, else a GPU's index.
// Direct links are numbered first, in order of the peer, then the uplinks.
static int far_end(int index, unsigned int link) {
	unsigned int next = 0;
	for (int peer = 0; peer < MAX_GPUS; peer++) {
		if (peer == index) continue;
		int count = pair_value("nvlink", index, peer, 0);
		if (link < next + (unsigned int)count) return peer;
		next += (unsigned int)count;
	}
	return link < next + (unsigned int)pair_value("switch", index, index, 0) ? -2 : -1;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t d, unsigned int link, nvmlEnableState_t *active) {
	BEGIN(index_of(d));
	if (link >= NVML_NVLINK_MAX_LINKS) return NVML_ERROR_INVALID_ARGUMENT;
	if (far_end(index_of(d), 0) == -1) return NVML_ERROR_NOT_SUPPORTED; // a card without NVLink
	*active = far_end(index_of(d), link) == -1 ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t d, unsigned int link, nvmlIntNvLinkDeviceType_t *type) {
	BEGIN(index_of(d));
	*type = far_end(index_of(d), link) == -2 ? NVML_NVLINK_DEVICE_TYPE_SWITCH : NVML_NVLINK_DEVICE_TYPE_GPU;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t d, unsigned int link, nvmlPciInfo_t *pci) {
	BEGIN(index_of(d));
	int peer = far_end(index_of(d), link);
	if (peer == -1) return NVML_ERROR_INVALID_ARGUMENT;
	memset(pci, 0, sizeof *pci);
	copy(pci->busId, sizeof pci->busId, peer == -2 ? "00000000:FF:00.0" : gpu_at(peer).bus);
	return NVML_SUCCESS;
}

// --- events --------------------------------------------------------------

static int event_set;

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) { BEGIN(-1); set->handle = (void *)&event_set; return NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t d, unsigned long long types, nvmlEventSet_t set) {
	(void)types, (void)set;
	BEGIN(index_of(d));
	return NVML_SUCCESS;
}

struct xid { unsigned long seq; int index; unsigned int code; };
static int find_xid(char *line, void *arg) {
	struct xid *x = arg, next;
	if (sscanf(line, "xid %lu %d %u", &next.seq, &next.index, &next.code) != 3) return 0;
	if (next.seq > last_xid && (x->seq == 0 || next.seq < x->seq)) *x = next;
	return 0;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms) {
	(void)set;
	BEGIN(-1);
	const struct timespec tick = {0, 5 * 1000 * 1000};
	for (unsigned int waited = 0; waited <= timeout_ms; waited += 5) {
		struct xid x = {0, 0, 0};
		each_line(find_xid, &x);
		if (x.seq) {
			last_xid = x.seq;
			memset(data, 0, sizeof *data);
			data->device.handle = (void *)&handles[x.index];
			data->eventType = nvmlEventTypeXidCriticalError;
			data->eventData = x.code;
			return NVML_SUCCESS;
		}
		nanosleep(&tick, NULL);
	}
	return NVML_ERROR_TIMEOUT;
}
