package tiny

import "slices"

// Special tokens follow the 256 bytes, in this order. Their names are those of
// Qwen's models, so that reasoning and tool parsers find what they look for.
var special = []string{
	endOfText, startOfTurn, endOfTurn, "<think>", "</think>", "<tool_call>", "</tool_call>", padding,
}

const (
	bytesInVocabulary = 256

	endOfText   = "<|endoftext|>"
	startOfTurn = "<|im_start|>"
	endOfTurn   = "<|im_end|>"
	padding     = "<|pad|>"
)

// chatTemplate renders every message the same way whatever follows it, so that
// a conversation with one more turn always extends the earlier prompt.
const chatTemplate = "{% for message in messages %}" +
	startOfTurn + "{{ message['role'] }}\n{{ message['content'] or '' }}" + endOfTurn + "\n" +
	"{% endfor %}{% if add_generation_prompt %}" + startOfTurn + "assistant\n{% endif %}"

// MessageTokens is what the chat template puts around a message of that role, in
// tokens: two that are special, the role and two line ends.
func MessageTokens(role string) int { return 2 + len(role) + 2 }

// PromptTokens is what it puts behind the messages of a request, in tokens. With
// the answer's own end it is MessageTokens of the assistant.
const PromptTokens = 1 + len("assistant\n")

func idOf(token string) int { return bytesInVocabulary + slices.Index(special, token) }

// tokenizer is a tokenizer.json of the tokenizers library: a byte-level BPE
// without merges, whose ids are the byte values.
func tokenizer() any {
	vocabulary := map[string]int{}
	for b, char := range byteCharacters() {
		vocabulary[string(char)] = b
	}
	var added []any
	for i, content := range special {
		added = append(added, map[string]any{
			"id": bytesInVocabulary + i, "content": content, "special": true,
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
		})
	}
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}
	return map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil,
		"added_tokens": added,
		"normalizer":   nil, "pre_tokenizer": byteLevel, "post_processor": nil, "decoder": byteLevel,
		"model": map[string]any{
			"type": "BPE", "dropout": nil, "unk_token": nil,
			"continuing_subword_prefix": nil, "end_of_word_suffix": nil,
			"fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
			"vocab": vocabulary, "merges": []string{},
		},
	}
}

func tokenizerConfig() any {
	return map[string]any{
		"tokenizer_class": "PreTrainedTokenizerFast",
		"eos_token":       endOfTurn, "pad_token": padding,
		"model_max_length": contextTokens,
		"chat_template":    chatTemplate,
	}
}

// byteCharacters is GPT-2's table from bytes to printable characters: those
// that print stand for themselves, the others take the code points from 256 on.
func byteCharacters() [bytesInVocabulary]rune {
	var table [bytesInVocabulary]rune
	next := rune(bytesInVocabulary)
	for b := range rune(bytesInVocabulary) {
		if b >= '!' && b <= '~' || b >= '¡' && b <= '¬' || b >= '®' && b <= 'ÿ' {
			table[b] = b
			continue
		}
		table[b] = next
		next++
	}
	return table
}
